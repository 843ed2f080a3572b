//! What must never get in, over real sockets: every request here is refused, and nothing is done in the owner's name.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say so and stop")]

mod common;

use agency_dashboard::{Right, Standing};
use common::{EVIL, Reply, Stage, request};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PAGES: [&str; 6] =
    ["/", "/now", "/repo/shop-1a2b3c4d", "/repo/shop-1a2b3c4d/run/r-1", "/history", "/machine"];

// covers: WB-03
#[test]
fn a_forged_host_and_a_rebound_name_are_refused_before_anything_else() {
    let stage = Stage::new();
    let cookie = stage.enter(Right::Act);
    let form = stage.form(&cookie, "ack");
    for host in [
        "evil.example",
        "evil.example:7777",
        "127.0.0.1.nip.io",
        "localhost.evil.example",
        "",
        "0.0.0.0",
    ] {
        let origin = format!("http://{host}");
        let headers = [
            ("Cookie", cookie.as_str()),
            ("Origin", &origin),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        let reply = stage.send(&request("POST", "/act", host, &headers, &form));
        assert_eq!(reply.status, 421, "Host and Origin agree on `{host}`: {}", reply.text);
        assert_eq!(stage.send(&request("GET", "/", host, &headers[..1], "")).status, 421, "{host}");
    }
    let twice = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nHost: evil.example\r\nCookie: {cookie}\r\n\r\n",
        stage.host()
    );
    assert_eq!(stage.send(&twice).status, 400);
    let absolute = format!(
        "GET http://evil.example/ HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\n\r\n",
        stage.host()
    );
    assert_eq!(stage.send(&absolute).status, 421);
    let none = format!("GET / HTTP/1.0\r\nCookie: {cookie}\r\n\r\n");
    assert_eq!(stage.send(&none).status, 421);
    assert_eq!(stage.acts(), 0);
}

// covers: WB-03
#[test]
fn a_page_of_another_site_can_make_a_browser_do_nothing() {
    let stage = Stage::new();
    let cookie = stage.enter(Right::Act);
    let form = stage.form(&cookie, "ack");
    let ours = format!("http://{}", stage.host());
    let cases: [&[(&str, &str)]; 7] = [
        &[("Origin", "http://evil.example")],
        &[("Origin", "null")],
        &[("Origin", "http://localhost:3000")],
        &[("Origin", "http://127.0.0.1:3000")],
        &[("Sec-Fetch-Site", "cross-site")],
        &[("Sec-Fetch-Site", "same-site"), ("Origin", &ours)],
        &[("Sec-Fetch-Site", "none"), ("Origin", &ours)],
    ];
    for case in cases {
        let mut headers = vec![("Cookie", cookie.as_str())];
        headers.extend(case);
        let reply = stage.post("/act", &headers, &form);
        assert_eq!(reply.status, 403, "{case:?}: {}", reply.text);
    }
    // A picture, a script or a fetch of another site.
    for mode in ["no-cors", "cors", "websocket"] {
        let headers = [
            ("Cookie", cookie.as_str()),
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Mode", mode),
            ("Sec-Fetch-Dest", "image"),
        ];
        assert_eq!(stage.get("/", &headers).status, 403, "{mode}");
    }
    let wrong_kind =
        [("Cookie", cookie.as_str()), ("Origin", &ours), ("Content-Type", "text/plain")];
    assert_eq!(stage.send(&request("POST", "/act", &stage.host(), &wrong_kind, &form)).status, 415);
    assert_eq!(stage.acts(), 0);
    let headers =
        [("Cookie", cookie.as_str()), ("Origin", ours.as_str()), ("Sec-Fetch-Site", "same-origin")];
    assert_eq!(stage.post("/act", &headers, &form).status, 303, "the owner's own page can");
    assert_eq!(stage.acts(), 1);
}

// covers: WB-03
#[test]
fn without_a_session_nothing_is_shown_and_a_link_opens_one_once() {
    let stage = Stage::new();
    for path in PAGES.iter().chain(&["/events", "/nothing"]) {
        let reply = stage.get(path, &[]);
        assert_eq!(reply.status, 401, "{path}");
        assert!(!reply.text.contains("LP-03"), "{path}");
    }
    let link = stage.dashboard.link(Right::Act).unwrap();
    let path = link.split_once(&stage.host()).unwrap().1;
    let reply = stage.get(path, &[]);
    let set = reply.header("set-cookie").unwrap();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(set.contains(word), "{set}");
    }
    assert!(!set.contains(path.rsplit('/').next().unwrap()), "the link's own token is no cookie");
    assert_eq!(stage.get(path, &[]).status, 403, "a second use");
    let cookie = reply.cookie();
    assert_eq!(stage.get("/", &[("Cookie", &cookie)]).status, 200);
    let (name, value) = cookie.split_once('=').unwrap();
    let mut letters: Vec<char> = value.chars().collect();
    letters[3] = if letters[3] == 'A' { 'B' } else { 'A' };
    let forged = format!("{name}={}", letters.iter().collect::<String>());
    assert_eq!(stage.get("/", &[("Cookie", &forged)]).status, 401);
    assert_eq!(stage.get("/", &[("Cookie", &format!("{name}=x"))]).status, 401);
    assert_eq!(stage.post("/leave", &[("Cookie", &cookie)], "").status, 200);
    assert_eq!(
        stage.get("/", &[("Cookie", &cookie)]).status,
        401,
        "a replayed cookie after leaving"
    );
}

// covers: WB-03
#[test]
fn tokens_that_are_guessed_lock_their_source_out() {
    let stage = Stage::new();
    let cookie = stage.enter(Right::Act);
    for guess in 0..10 {
        let token = format!("{guess:043}");
        assert_eq!(stage.get(&format!("/enter/{token}"), &[]).status, 403);
    }
    let link = stage.dashboard.link(Right::Act).unwrap();
    let path = link.split_once(&stage.host()).unwrap().1;
    assert_eq!(stage.get(path, &[]).status, 429, "even a right one, so that guessing ends");
    assert_eq!(stage.get("/", &[("Cookie", &cookie)]).status, 429, "from the same source");
    // The socket is another source: the owner still gets in there.
    let reply = stage.send_unix(&request("GET", path, "agency", &[], ""));
    assert_eq!(reply.status, 303);
}

// covers: WB-02, WB-03
#[test]
fn a_form_is_for_its_session_and_its_act_and_works_once() {
    let stage = Stage::new();
    let (cookie, other) = (stage.enter(Right::Act), stage.enter(Right::Act));
    let form = stage.form(&cookie, "answer");
    let post = |cookie: &str, form: &str| stage.post("/act", &[("Cookie", cookie)], form).status;
    assert_eq!(post(&other, &form), 403, "another session");
    assert_eq!(post(&cookie, &form.replace("do=answer", "do=resume")), 403, "another verb");
    assert_eq!(
        post(&cookie, &form.replace("a1b2c3d4e5f6", "0123456789ab")),
        403,
        "another message"
    );
    assert_eq!(
        post(&cookie, &form.replace("shop-1a2b3c4d", "api-1a2b3c4d")),
        403,
        "another repository"
    );
    assert_eq!(post(&cookie, "repo=x&do=ack"), 400, "no signature");
    assert_eq!(stage.acts(), 0);
    assert_eq!(post(&cookie, &(form.clone() + "&text=it+is+mended")), 303);
    assert_eq!(post(&cookie, &form), 409, "the second click");
    let acts = stage.fake.acts.lock().unwrap();
    let [(repo, act, caller)] = acts.as_slice() else { panic!("{acts:?}") };
    assert_eq!(repo, "shop-1a2b3c4d");
    let act = format!("{act:?}");
    assert!(
        act.contains("a1b2c3d4e5f6") && act.contains("resume") && act.contains("it is mended"),
        "{act}"
    );
    assert_eq!((caller.who.as_str(), caller.from.as_str()), ("owner", "dashboard (127.0.0.1)"));
    assert!(form.contains(&caller.request), "the number that the form carried");
}

// covers: WB-03
#[test]
fn a_session_that_may_read_sees_no_button_and_acts_not() {
    let stage = Stage::new();
    let (reader, owner) = (stage.enter(Right::Read), stage.enter(Right::Act));
    let page = stage.get("/", &[("Cookie", &reader)]);
    assert!(page.status == 200 && !page.text.contains("action=\"/act\""));
    let form = stage.form(&owner, "ack");
    assert_eq!(stage.post("/act", &[("Cookie", &reader)], &form).status, 403);
    assert_eq!(stage.acts(), 0);
}

// covers: WB-05
#[test]
fn a_process_of_a_run_gets_nothing_whatever_it_presents() {
    let is_agent = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let asked = Arc::clone(&is_agent);
    let stage = Stage::with(Arc::new(move |_| {
        let inside = asked.load(std::sync::atomic::Ordering::Relaxed);
        if inside { Standing::Inside("r-7".into()) } else { Standing::Outside }
    }));
    let cookie = stage.enter(Right::Act);
    let form = stage.form(&cookie, "ack");
    let link = stage.dashboard.link(Right::Act).unwrap();
    let path = link.split_once(&stage.host()).unwrap().1.to_owned();
    is_agent.store(true, std::sync::atomic::Ordering::Relaxed);
    let with = [("Cookie", cookie.as_str())];
    for page in PAGES.iter().chain(&["/events", "/style.css", path.as_str()]) {
        let reply = stage.get(page, &with);
        assert!(reply.status == 403 && reply.text.contains("r-7"), "{page}: {}", reply.text);
    }
    assert_eq!(stage.post("/act", &with, &form).status, 403);
    let asks = [("X-Agency-Link", "act")];
    assert_eq!(stage.send_unix(&request("POST", "/link", "agency", &asks, "")).status, 403);
    assert_eq!(stage.acts(), 0);
    is_agent.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(stage.get(&path, &[]).status, 303, "what an agent touched is still the owner's");
}

// covers: WB-05
#[test]
fn a_process_that_is_not_clear_may_look_and_not_act() {
    let unclear = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let asked = Arc::clone(&unclear);
    let stage = Stage::with(Arc::new(move |_| {
        let unclear = asked.load(std::sync::atomic::Ordering::Relaxed);
        if unclear { Standing::Unclear("nobody knows it".into()) } else { Standing::Outside }
    }));
    let cookie = stage.enter(Right::Act);
    let form = stage.form(&cookie, "ack");
    unclear.store(true, std::sync::atomic::Ordering::Relaxed);
    let page = stage.get("/", &[("Cookie", &cookie)]);
    assert!(
        page.status == 200
            && !page.text.contains("action=\"/act\"")
            && page.text.contains("nobody knows it")
    );
    assert_eq!(stage.post("/act", &[("Cookie", &cookie)], &form).status, 403);
    assert_eq!(stage.acts(), 0);
}

// covers: WB-03
#[test]
fn links_are_made_on_the_socket_and_not_by_a_browser() {
    let stage = Stage::new();
    let link = |headers: &[(&str, &str)]| {
        stage.send_unix(&request("POST", "/link", "agency", headers, ""))
    };
    let made = link(&[("X-Agency-Link", "read")]);
    assert!(made.status == 200 && made.text.contains("/enter/"), "{}", made.text);
    for wrong in [
        &[][..],
        &[("X-Agency-Link", "root")],
        &[("X-Agency-Link", "act"), ("Origin", "http://localhost:7777")],
        &[("X-Agency-Link", "act"), ("Sec-Fetch-Site", "same-origin")],
        &[("X-Agency-Link", "act"), ("Cookie", "a=b")],
    ] {
        assert_eq!(link(wrong).status, 403, "{wrong:?}");
    }
    assert_eq!(stage.post("/link", &[("X-Agency-Link", "act")], "").status, 403, "not by TCP");
}

// covers: WB-03
#[test]
fn slow_and_huge_requests_are_ended() {
    let stage = Stage::new();
    let cookie = stage.enter(Right::Act);
    let huge = "x".repeat(40_000);
    assert_eq!(stage.post("/act", &[("Cookie", &cookie)], &huge).status, 413);
    let long_head = stage.get("/", &[("X-Long", &huge)]);
    assert!(matches!(long_head.status, 0 | 400 | 431), "{}", long_head.status);
    assert_eq!(stage.get(&format!("/{}", "y".repeat(2_000)), &[("Cookie", &cookie)]).status, 414);
    assert_eq!(
        stage.send(&request("DELETE", "/", &stage.host(), &[("Cookie", &cookie)], "")).status,
        405
    );
    // One letter a second: the head must be whole within five.
    let (began, mut stream) = (Instant::now(), TcpStream::connect(stage.address).unwrap());
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut drip = stream.try_clone().unwrap();
    let dripping = std::thread::spawn(move || {
        for byte in b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: aaaaaaaaaaaaaaaaaaa" {
            if drip.write_all(&[*byte]).is_err() || began.elapsed() > Duration::from_secs(15) {
                return;
            }
            std::thread::sleep(Duration::from_millis(400));
        }
    });
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).ok();
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    dripping.join().unwrap();
    // Connections that say nothing take no room for long.
    let idle: Vec<TcpStream> =
        (0..80).map(|_| TcpStream::connect(stage.address).unwrap()).collect();
    assert_eq!(stage.get("/style.css", &[]).status, 200);
    drop(idle);
    assert_eq!(stage.acts(), 0);
}

// covers: WB-04
#[test]
fn texts_of_others_are_shown_and_never_run() {
    let stage = Stage::new();
    let cookie = stage.enter(Right::Act);
    for path in PAGES
        .iter()
        .chain(&["/history?q=%3Cscript%3Ealert(9)%3C/script%3E&repo=%22%3E%3Cscript%3E"])
    {
        let Reply { status, head, text } = stage.get(path, &[("Cookie", &cookie)]);
        assert_eq!(status, 200, "{path}");
        let policy = head.lines().find(|line| line.starts_with("content-security-policy")).unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        for live in
            ["<script>", "<svg onload", "<a href=\"javascript", "\" onmouseover=\"", "style=\""]
        {
            assert!(!text.contains(live), "{path} holds {live}");
        }
        assert_eq!(text.matches("<script").count(), 1, "{path}: our own");
        for hidden in ['\u{1b}', '\u{7}', '\u{202e}', '\u{200b}'] {
            assert!(!text.contains(hidden), "{path} holds {hidden:?}");
        }
        assert!(text.contains("&lt;script&gt;"), "{path} shows it");
    }
    let page = stage.get("/", &[("Cookie", &cookie)]).text;
    assert!(
        page.contains("<span class=\"ctl\">U+202E</span>fdp.exe")
            && page.contains("<span class=\"ctl\">ESC</span>[31m")
    );
    assert!(EVIL.contains('\u{202e}'));
}

// covers: WB-01
#[test]
fn an_open_page_hears_of_a_change_within_a_second() {
    let stage = Stage::new();
    let cookie = stage.enter(Right::Read);
    let mut stream = TcpStream::connect(stage.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
        .write_all(request("GET", "/events", &stage.host(), &[("Cookie", &cookie)], "").as_bytes())
        .unwrap();
    let mut heard = String::new();
    let mut buffer = [0; 4096];
    let mut wait_for = |word: &str, heard: &mut String| {
        while !heard.contains(word) {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "the connection ended: {heard}");
            heard.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    };
    wait_for("retry:", &mut heard);
    let began = Instant::now();
    stage.fake.stamp.store(7, std::sync::atomic::Ordering::Relaxed);
    wait_for("event: changed", &mut heard);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}
