#!/usr/bin/env bash
# install.sh install|uninstall BUILD - puts what was built in BUILD below PREFIX, or removes the
# same files again. `make install` calls it. From the environment: VERSION, PREFIX, DESTDIR (put
# before every path, for packagers), and BINDIR, LIBDIR, INCLUDEDIR, DATADIR, which follow PREFIX.
set -eu
cd "$(dirname "$0")/../.."
mode=$1 build=$2
major=${VERSION%%.*}
: "${BINDIR:=$PREFIX/bin}" "${LIBDIR:=$PREFIX/lib}" "${INCLUDEDIR:=$PREFIX/include}" "${DATADIR:=$PREFIX/share}"
here=runtime/install

place() { # file, path, permissions
  if [ "$mode" = uninstall ]; then
    rm -f "$DESTDIR$2"
  else
    install -D -m "$3" "$1" "$DESTDIR$2"
  fi
}

link_to() { # target, path
  if [ "$mode" = uninstall ]; then rm -f "$DESTDIR$2"; else ln -sf "$1" "$DESTDIR$2"; fi
}

filled=$(mktemp)
trap 'rm -f "$filled"' EXIT
place_filled() { # template, path
  sed -e "s|@PREFIX@|$PREFIX|g" -e "s|@LIBDIR@|$LIBDIR|g" -e "s|@INCLUDEDIR@|$INCLUDEDIR|g" \
    -e "s|@VERSION@|$VERSION|g" -e "s|@MAJOR@|$major|g" \
    -e "s|@INCLUDE_FROM_CMAKE@|$(realpath -m --relative-to="$LIBDIR/cmake/attune" "$INCLUDEDIR")|g" \
    "$1" >"$filled"
  place "$filled" "$2" 644
}

place "$build/attune" "$BINDIR/attune" 755
for library in attune attune_cpu attune_gen; do
  place "$build/lib$library.a" "$LIBDIR/lib$library.a" 644
  place "$build/lib$library.so.$major" "$LIBDIR/lib$library.so.$VERSION" 755
  link_to "lib$library.so.$VERSION" "$LIBDIR/lib$library.so.$major"
  link_to "lib$library.so.$major" "$LIBDIR/lib$library.so"
  place_filled "$here/$library.pc.in" "$LIBDIR/pkgconfig/$library.pc"
done
for file in attune-config attune-config-version; do
  place_filled "$here/$file.cmake.in" "$LIBDIR/cmake/attune/$file.cmake"
done
for file in runtime/attune.h runtime/axes.def runtime/status.def runtime/attune_dlpack.h \
  runtime/attune_cpu.h gen/jit.h; do
  place "$file" "$INCLUDEDIR/attune/${file##*/}" 644
done
for file in specs/*.* specs/models/*; do place "$file" "$DATADIR/attune/$file" 644; done
place "$build/share/attune.1" "$DATADIR/man/man1/attune.1" 644
place "$build/share/attune.bash" "$DATADIR/bash-completion/completions/attune" 644
place "$build/share/attune.zsh" "$DATADIR/zsh/site-functions/_attune" 644
place "$build/share/attune.fish" "$DATADIR/fish/vendor_completions.d/attune.fish" 644

if [ "$mode" = uninstall ]; then
  for folder in "$LIBDIR/cmake/attune" "$INCLUDEDIR/attune" "$DATADIR/attune/specs/models" \
    "$DATADIR/attune/specs" "$DATADIR/attune"; do
    rmdir "$DESTDIR$folder" 2>/dev/null || true
  done
elif [ -z "$DESTDIR" ] && [ "$(id -u)" -eq 0 ] && [[ $LIBDIR == /usr/* ]]; then
  ldconfig # the loader's cache: programs find the new libraries at once
fi
