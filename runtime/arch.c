/* arch.c - GPU architectures as numbers: parse, print, and which code runs on which device.
 *
 * Input: "sm_90a" or "sm90a", or numbers made by attune__arch. Which archs attune generates for is
 * left to gen/arch.def. */
#include "variant.h"

#include <stdio.h>

enum { MAX_CC = 999 };

uint32_t attune__arch_parse(const char *text) {
  if (strncmp(text, "sm", 2) != 0) return 0;
  text += text[2] == '_' ? 3 : 2;
  if (*text == '0') return 0;
  uint32_t cc = 0;
  for (; *text >= '0' && *text <= '9'; text++) {
    cc = cc * 10 + (uint32_t)(*text - '0');
    if (cc > MAX_CC) return 0;
  }
  char suffix = *text == 'a' || *text == 'f' ? *text++ : 0;
  return cc < 10 || *text ? 0 : attune__arch(cc, suffix);
}

void attune__arch_print(uint32_t arch, int underscore, char out[ATTUNE_ARCH_MAX]) {
  char suffix[2] = {attune__arch_suffix(arch), 0};
  snprintf(out, ATTUNE_ARCH_MAX, "sm%s%u%s", underscore ? "_" : "", attune__arch_cc(arch), suffix);
}

int attune__arch_runs(uint32_t code, uint32_t device) {
  if (attune__arch_suffix(code)) return code == device;
  uint32_t code_cc = attune__arch_cc(code), device_cc = attune__arch_cc(device);
  return code_cc / 10 == device_cc / 10 && code_cc % 10 <= device_cc % 10;
}
