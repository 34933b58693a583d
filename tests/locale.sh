#!/bin/sh
# locale.sh - makes build/locale/de_DE.UTF-8, a locale with a decimal comma, for tests that show that
# no locale changes what attune prints or reads. Use: setenv("LOCPATH", "build/locale"), then
# setlocale(LC_ALL, "de_DE.UTF-8"). Does nothing when it is there; safe to run several at once.
#
# From the sources of Debian's package `locales` where it is installed, else from a minimal source of
# our own: LC_NUMERIC with the comma, ASCII characters, the C locale's rest.
set -eu
folder=${1:-build/locale}
target=$folder/de_DE.UTF-8

has_comma() { [ "$(LOCPATH=$1 LC_ALL=de_DE.UTF-8 locale decimal_point 2>/dev/null)" = "," ]; }
has_comma "$folder" && exit 0

mkdir -p "$folder"
work=$(mktemp -d "$folder/make-XXXXXX")
trap 'rm -rf "$work"' EXIT

minimal() {
  {
    printf '<code_set_name> "UTF-8"\n<comment_char> %%\n<escape_char> /\nCHARMAP\n'
    code=0
    while [ $code -lt 128 ]; do
      printf '<U%04X> /x%02x character\n' $code $code
      code=$((code + 1))
    done
    echo 'END CHARMAP'
  } >"$work/charmap"
  cat >"$work/source" <<'SOURCE'
comment_char %
escape_char /
LC_NUMERIC
decimal_point ","
thousands_sep "."
grouping 3;3
END LC_NUMERIC
LC_COLLATE
order_start forward
<U0000>
..
<U007F>
order_end
END LC_COLLATE
SOURCE
  # -c: write it in spite of the warnings that the other categories are missing.
  localedef -c -i "$work/source" -f "$work/charmap" "$work/de_DE.UTF-8" >"$work/log" 2>&1 || true
}

localedef -i de_DE -f UTF-8 "$work/de_DE.UTF-8" >"$work/log" 2>&1 || minimal
if ! has_comma "$work"; then
  echo "locale.sh: localedef made no locale with a decimal comma:" >&2
  cat "$work/log" >&2
  exit 1
fi
# Another run may have put its own there meanwhile: that one is as good.
mv -T "$work/de_DE.UTF-8" "$target" 2>/dev/null || has_comma "$folder"
