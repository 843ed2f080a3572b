//! Our own files on disk, made to survive a crash. It knows nothing of what they mean.

pub mod lock;
