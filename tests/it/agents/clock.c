/* Preloaded by tests into every process of a namespace. A file in its `/etc` holds a number of seconds. From the moment at which it was written,
 * the wall clock and the times of files that are newer than it are off by that much, as if the machine's clock had been set. Other clocks go on as they are. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* How far the clock is off. `set_at` is when it was set, by the clock before that. */
static long offset(struct timespec *set_at) {
    char text[32] = {0};
    struct stat meta;
    long seconds = 0;
    int file = syscall(SYS_openat, AT_FDCWD, "/etc/agency-test-clock", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    if (syscall(SYS_read, file, text, sizeof text - 1) > 0 && syscall(SYS_fstat, file, &meta) == 0) {
        seconds = atol(text);
        *set_at = meta.st_mtim;
    }
    syscall(SYS_close, file);
    return seconds;
}

static int is_after(long seconds, long nanoseconds, const struct timespec *than) {
    return seconds > than->tv_sec || (seconds == than->tv_sec && nanoseconds > than->tv_nsec);
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int code = syscall(SYS_clock_gettime, id, now);
    struct timespec set_at;
    if (code == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += offset(&set_at);
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (at) *at = exact.tv_sec;
    return exact.tv_sec;
}

int statx(int dir, const char *restrict path, int flags, unsigned mask, struct statx *restrict meta) {
    int code = syscall(SYS_statx, dir, path, flags, mask, meta);
    struct timespec set_at;
    long seconds = code == 0 ? offset(&set_at) : 0;
    if (seconds == 0) return code;
    if (is_after(meta->stx_mtime.tv_sec, meta->stx_mtime.tv_nsec, &set_at)) meta->stx_mtime.tv_sec += seconds;
    if (is_after(meta->stx_ctime.tv_sec, meta->stx_ctime.tv_nsec, &set_at)) meta->stx_ctime.tv_sec += seconds;
    return code;
}

static int shift(int code, struct stat *meta) {
    struct timespec set_at;
    long seconds = code == 0 ? offset(&set_at) : 0;
    if (seconds == 0) return code;
    if (is_after(meta->st_mtim.tv_sec, meta->st_mtim.tv_nsec, &set_at)) meta->st_mtim.tv_sec += seconds;
    if (is_after(meta->st_ctim.tv_sec, meta->st_ctim.tv_nsec, &set_at)) meta->st_ctim.tv_sec += seconds;
    return code;
}

int fstat(int file, struct stat *meta) { return shift(syscall(SYS_fstat, file, meta), meta); }

int fstatat(int dir, const char *restrict path, struct stat *restrict meta, int flags) {
    return shift(syscall(SYS_newfstatat, dir, path, meta, flags), meta);
}

int stat(const char *restrict path, struct stat *restrict meta) { return fstatat(AT_FDCWD, path, meta, 0); }

int lstat(const char *restrict path, struct stat *restrict meta) {
    return fstatat(AT_FDCWD, path, meta, AT_SYMLINK_NOFOLLOW);
}

/* The same under their other names; on a 64-bit machine both structures are one. */
int fstat64(int file, struct stat64 *meta) { return fstat(file, (struct stat *)meta); }

int fstatat64(int dir, const char *restrict path, struct stat64 *restrict meta, int flags) {
    return fstatat(dir, path, (struct stat *)meta, flags);
}

int stat64(const char *restrict path, struct stat64 *restrict meta) { return stat(path, (struct stat *)meta); }

int lstat64(const char *restrict path, struct stat64 *restrict meta) { return lstat(path, (struct stat *)meta); }
