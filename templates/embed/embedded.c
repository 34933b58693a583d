//-- embedded.c - `attune embed`: what stands behind the pack's array in the C file, and the header.
//-- part "declarations" or "definitions"; prefix: of the function's name; bytes, kernels: numbers.
//@ if part == "declarations" then
#ifdef __cplusplus
extern "C" {
#endif

/* Adds the $(kernels) kernels of this file to a context, as attune_open_set does those of a folder: nothing is
 * copied, entries are read at the first attune_prepare. ATTUNE_OK, or what attune_open_memory says. */
attune_status $(prefix)_open(attune_context *context);

#ifdef __cplusplus
}
#endif
//@ else
attune_status $(prefix)_open(attune_context *context) {
  return attune_open_memory(context, $(prefix)_pack, sizeof $(prefix)_pack, "$(prefix)");
}
//@ end
