//! Statuses and errors.
use attune_sys as sys;
use std::ffi::CStr;
use std::fmt;
use std::os::raw::c_char;

/// What a call came to, by the names of `status.def`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub sys::attune_status);

#[allow(missing_docs)]
impl Status {
    pub const INVALID: Status = Status(sys::ATTUNE_INVALID);
    pub const NO_MEMORY: Status = Status(sys::ATTUNE_NO_MEMORY);
    pub const NO_DEVICE: Status = Status(sys::ATTUNE_NO_DEVICE);
    pub const NOT_FOUND: Status = Status(sys::ATTUNE_NOT_FOUND);
    pub const UNSUPPORTED: Status = Status(sys::ATTUNE_UNSUPPORTED);
    pub const NO_FIT: Status = Status(sys::ATTUNE_NO_FIT);
    pub const BAD_FILE: Status = Status(sys::ATTUNE_BAD_FILE);
    pub const IO: Status = Status(sys::ATTUNE_IO);
    pub const BAD_SPEC: Status = Status(sys::ATTUNE_BAD_SPEC);
    pub const TEMPLATE: Status = Status(sys::ATTUNE_TEMPLATE);
    pub const NO_COMPILER: Status = Status(sys::ATTUNE_NO_COMPILER);
    pub const COMPILE: Status = Status(sys::ATTUNE_COMPILE);
    pub const DRIVER: Status = Status(sys::ATTUNE_DRIVER);
    pub const WORKSPACE: Status = Status(sys::ATTUNE_WORKSPACE);
    pub const MISMATCH: Status = Status(sys::ATTUNE_MISMATCH);
    pub const BUSY: Status = Status(sys::ATTUNE_BUSY);

    /// "ATTUNE_NOT_FOUND".
    pub fn name(self) -> &'static str {
        // SAFETY: returns a static string for any number.
        unsafe { text(sys::attune_status_name(self.0)) }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A call failed: the status, and what was wanted, what was found and what would work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub status: Status,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status.name(), self.message)
    }
}

impl std::error::Error for Error {}

/// A C string that is UTF-8 by the library's promise ("" for NULL).
///
/// # Safety
/// NULL, or a string that lives as long as the result is used.
pub(crate) unsafe fn text<'a>(string: *const c_char) -> &'a str {
    if string.is_null() {
        return "";
    }
    CStr::from_ptr(string).to_str().unwrap_or("")
}

/// The error of the call that just returned `status` on this thread.
pub(crate) fn check(status: sys::attune_status) -> Result<()> {
    if status == sys::ATTUNE_OK {
        return Ok(());
    }
    // SAFETY: valid until the next failing call of this thread; copied here.
    let message = unsafe { CStr::from_ptr(sys::attune_error()) };
    Err(Error {
        status: Status(status),
        message: message.to_string_lossy().into_owned(),
    })
}

pub(crate) fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Error {
        status: Status::INVALID,
        message: message.into(),
    })
}
