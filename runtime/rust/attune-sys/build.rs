//! Finds libattune, in this order: the folder ATTUNE_LIB_DIR; what `pkg-config attune` says; the
//! `build` folder of the source tree that this crate lies in.
//!
//! A build folder has libattune.so.0 but no libattune.so, which the linker asks for: links of both
//! names are made in OUT_DIR, where cargo's own runs (`cargo test`, `cargo run`) find them too.
use std::env;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const MAJOR: &str = "0";

fn libraries() -> Vec<&'static str> {
    let mut names = vec!["attune"];
    if env::var_os("CARGO_FEATURE_CPU").is_some() {
        names.push("attune_cpu");
    }
    if env::var_os("CARGO_FEATURE_JIT").is_some() {
        names.push("attune_gen");
        if !names.contains(&"attune_cpu") {
            names.push("attune_cpu"); // libattune_gen needs it
        }
    }
    names
}

fn from_pkg_config() -> Option<PathBuf> {
    let said = Command::new("pkg-config")
        .args(["--variable=libdir", "attune"])
        .output()
        .ok()?;
    let folder = String::from_utf8(said.stdout).ok()?;
    let folder = folder.trim();
    (said.status.success() && !folder.is_empty()).then(|| PathBuf::from(folder))
}

fn source_tree() -> Option<PathBuf> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3)?;
    let here = tree.join("runtime/attune.h").exists();
    here.then(|| tree.join("build"))
}

fn file_in(folder: &Path, name: &str) -> Option<PathBuf> {
    [format!("lib{name}.so.{MAJOR}"), format!("lib{name}.so")]
        .iter()
        .map(|file| folder.join(file))
        .find(|path| path.exists())
}

fn folder() -> PathBuf {
    if let Some(named) = env::var_os("ATTUNE_LIB_DIR") {
        return PathBuf::from(named);
    }
    let tree = source_tree().filter(|folder| file_in(folder, "attune").is_some());
    from_pkg_config().or(tree).unwrap_or_else(|| {
        panic!(
            "libattune not found: install attune (make install) so that pkg-config knows it, set \
             ATTUNE_LIB_DIR to the folder that has libattune.so.{MAJOR}, or run make in the source tree"
        )
    })
}

fn link(target: &Path, at: &Path) {
    let _ = std::fs::remove_file(at);
    if let Err(error) = symlink(target, at) {
        panic!("{} -> {}: {error}", at.display(), target.display());
    }
}

fn main() {
    println!("cargo:rerun-if-env-changed=ATTUNE_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let folder = folder();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for name in libraries() {
        let file = file_in(&folder, name).unwrap_or_else(|| {
            panic!(
                "{} has no lib{name}.so.{MAJOR}: build it, or switch the crate's feature off",
                folder.display()
            )
        });
        let file = file.canonicalize().expect("it exists");
        println!("cargo:rerun-if-changed={}", file.display());
        link(&file, &out.join(format!("lib{name}.so")));
        link(&file, &out.join(format!("lib{name}.so.{MAJOR}")));
    }
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:libdir={}", folder.display()); // DEP_ATTUNE_LIBDIR for build scripts above
}
