//! Context: one device, its kernel sets, its JIT.
use crate::error::{check, invalid, text, Result};
use crate::{Buffer, Problem, Program};
use attune_sys as sys;
use std::ffi::CString;
use std::os::raw::{c_char, c_int, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::ptr;

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Served, but not as well as it could be: said once each.
    Warn,
    /// A compile or a load, with its time.
    Info,
}

type Listener = Box<dyn Fn(Level, &str) + Send + Sync>;

/// How a context is opened: [`Context::options`] begins one, `cuda`, `arch` or `cpu` ends it.
#[derive(Default)]
pub struct Options {
    listener: Option<Listener>,
    no_jit: bool,
    store: Option<String>,
}

impl Options {
    /// Told of compiles and of kernels that serve a call less well than they could; from any thread.
    pub fn message(mut self, listener: impl Fn(Level, &str) + Send + Sync + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// Only what the opened sets have: a miss is an error that says which spec lines to add.
    pub fn no_jit(mut self) -> Self {
        self.no_jit = true;
        self
    }

    /// Folder where compiled kernels are kept. Default: ATTUNE_CACHE_DIR, XDG_CACHE_HOME or ~/.cache.
    pub fn store(mut self, folder: &str) -> Self {
        self.store = Some(folder.to_owned());
        self
    }

    /// Compiled kernels are kept in memory only.
    pub fn in_memory(self) -> Self {
        self.store("")
    }

    /// A CUDA device, by its ordinal.
    pub fn cuda(self, device: i32) -> Result<Context> {
        self.open(device, None)
    }

    /// Looks up and compiles for an arch such as "sm_90a", without a device: nothing can be launched.
    pub fn arch(self, arch: &str) -> Result<Context> {
        self.open(0, Some(arch))
    }

    fn open(self, device: i32, arch: Option<&str>) -> Result<Context> {
        let arch = arch.map(c_string).transpose()?;
        let mut options = sys::attune_options::init();
        options.device = device;
        options.arch = arch.as_ref().map_or(ptr::null(), |arch| arch.as_ptr());
        self.finish(|message, user, out| {
            options.message = message;
            options.message_user = user;
            // SAFETY: options and its strings live for the call; out is a place for a pointer.
            unsafe { sys::attune_open(&options, out) }
        })
    }

    /// The CPU device: executes and checks what an arch such as "sm_80" would run.
    #[cfg(feature = "cpu")]
    pub fn cpu(self, arch: &str) -> Result<Context> {
        let arch = c_string(arch)?;
        let mut options = sys::attune_cpu_options::init();
        options.arch = arch.as_ptr();
        self.finish(|message, user, out| {
            options.message = message;
            options.message_user = user;
            // SAFETY: as in open.
            unsafe { sys::attune_cpu_open(&options, out) }
        })
    }

    fn finish(
        self,
        open: impl FnOnce(
            sys::attune_message_fn,
            *mut c_void,
            *mut *mut sys::attune_context,
        ) -> sys::attune_status,
    ) -> Result<Context> {
        let mut context = Context {
            handle: ptr::null_mut(),
            #[cfg(feature = "jit")]
            jit: ptr::null_mut(),
            listener: self.listener.map(Box::new),
        };
        let (message, user) = context.messages();
        check(open(message, user, &mut context.handle))?;
        if !self.no_jit {
            context.install(self.store)?;
        }
        Ok(context)
    }
}

pub(crate) fn c_string(text: &str) -> Result<CString> {
    CString::new(text).or_else(|_| invalid(format!("{text:?} holds a NUL")))
}

unsafe extern "C" fn tell(user: *mut c_void, level: sys::attune_level, message: *const c_char) {
    let level = if level == sys::ATTUNE_LEVEL_WARN {
        Level::Warn
    } else {
        Level::Info
    };
    let listener = &*(user as *const Listener);
    // A panic must not pass through C: what the listener said until then stands.
    let _ = catch_unwind(AssertUnwindSafe(|| listener(level, text(message))));
}

/// One device, its kernel sets and its loaded kernels. Dropping it frees them.
pub struct Context {
    handle: *mut sys::attune_context,
    #[cfg(feature = "jit")]
    jit: *mut sys::attune_jit,
    listener: Option<Box<Listener>>, // boxed twice: C keeps a thin pointer to it
}

// SAFETY: attune.h's thread rule: everything but opening and closing from any thread at any time.
unsafe impl Send for Context {}
unsafe impl Sync for Context {}

impl Context {
    /// With the JIT, its default store and no messages: `Context::options().cpu("sm_80")`.
    pub fn options() -> Options {
        Options::default()
    }

    /// A CUDA device with default options.
    pub fn cuda(device: i32) -> Result<Context> {
        Self::options().cuda(device)
    }

    fn messages(&self) -> (sys::attune_message_fn, *mut c_void) {
        match &self.listener {
            Some(listener) => (Some(tell), &**listener as *const Listener as *mut c_void),
            None => (None, ptr::null_mut()),
        }
    }

    #[cfg(feature = "jit")]
    fn install(&mut self, store: Option<String>) -> Result<()> {
        let store = store.as_deref().map(c_string).transpose()?;
        let mut options = sys::attune_jit_options::init();
        options.store = store.as_ref().map_or(ptr::null(), |store| store.as_ptr());
        (options.message, options.message_user) = self.messages();
        // SAFETY: the context is open; options and the string live for the call.
        check(unsafe { sys::attune_jit_install(self.handle, &options, &mut self.jit) })
    }

    #[cfg(not(feature = "jit"))]
    fn install(&mut self, _store: Option<String>) -> Result<()> {
        Ok(())
    }

    /// For calls of the C library that this crate does not wrap.
    pub fn as_ptr(&self) -> *mut sys::attune_context {
        self.handle
    }

    /// Adds the kernels of a set: a folder that `attune build` made, or a pack. Later sets win.
    pub fn open_set(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = c_string(&path.as_ref().to_string_lossy())?;
        // SAFETY: the string lives for the call.
        check(unsafe { sys::attune_open_set(self.handle, path.as_ptr()) })
    }

    /// The arch looked up for, such as "sm_90a".
    pub fn arch(&self) -> &str {
        // SAFETY: lives as long as the context.
        unsafe { text(sys::attune_context_arch(self.handle)) }
    }

    /// The device's name; "" without one.
    pub fn device_name(&self) -> &str {
        // SAFETY: lives as long as the context.
        unsafe { text(sys::attune_context_device(self.handle)) }
    }

    /// Looks a problem up in memory, about 20 ns: never compiles, loads or locks.
    pub fn find(&self, problem: &Problem) -> Result<Program<'_>> {
        let mut program = ptr::null_mut();
        // SAFETY: the raw problem and its pins live for the call.
        check(problem.with_raw(|raw| unsafe { sys::attune_find(self.handle, raw, &mut program) }))?;
        Ok(Program::new(self, program, problem))
    }

    /// Finds and makes ready to launch: loads, or compiles what no set and no store has.
    pub fn prepare(&self, problem: &Problem) -> Result<Program<'_>> {
        let mut program = ptr::null_mut();
        let ask = |raw: &_| unsafe { sys::attune_prepare(self.handle, raw, &mut program) };
        check(problem.with_raw(ask))?; // SAFETY: as in find
        Ok(Program::new(self, program, problem))
    }

    /// Whether prepare would find or could make a program; the error is the reason why not.
    pub fn supports(&self, problem: &Problem) -> Result<()> {
        // SAFETY: as in find.
        check(problem.with_raw(|raw| unsafe { sys::attune_supports(self.handle, raw) }))
    }

    /// Every program that the context knows, in name order, by its variant's name.
    pub fn variants(&self) -> Result<Vec<String>> {
        unsafe extern "C" fn visit(user: *mut c_void, program: *mut sys::attune_program) -> c_int {
            let names = &mut *(user as *mut Vec<String>);
            let mut info = sys::attune_program_info::init();
            if sys::attune_info(program, &mut info) == sys::ATTUNE_OK {
                names.push(text(info.variant).to_owned());
            }
            0
        }
        let mut names: Vec<String> = Vec::new();
        let user = &mut names as *mut Vec<String> as *mut c_void;
        // SAFETY: visit is called during this call only, with the vector behind user.
        check(unsafe { sys::attune_each(self.handle, Some(visit), user) })?;
        Ok(names)
    }

    /// Device memory; on the CPU device host memory. Not initialised on a GPU.
    pub fn alloc(&self, bytes: usize) -> Result<Buffer<'_>> {
        Buffer::new(self, bytes)
    }

    /// Waits for all work on the device.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the context is open.
        check(unsafe { sys::attune_synchronize(self.handle) })
    }

    /// What the last launch on the CPU device moved and did; see `attune_cpu.h`.
    #[cfg(feature = "cpu")]
    pub fn count(&self) -> Result<sys::attune_cpu_counters> {
        let mut counters = sys::attune_cpu_counters::init();
        // SAFETY: counters carries its size.
        check(unsafe { sys::attune_cpu_count(self.handle, -1, &mut counters) })?;
        Ok(counters)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: nobody borrows the context any more; a jit is closed after its context.
        unsafe {
            if !self.handle.is_null() {
                sys::attune_close(self.handle);
            }
            #[cfg(feature = "jit")]
            if !self.jit.is_null() {
                sys::attune_jit_close(self.jit);
            }
        }
    }
}
