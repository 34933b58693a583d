/* jit_parts.h - the inside of a jit that attune_tune and tests need. */
#ifndef ATTUNE_JIT_PARTS_H
#define ATTUNE_JIT_PARTS_H

#include "tune_online.h"

/* The variant that a problem asks for on an arch, as code is made for it. */
attune_status attune__jit_request(const attune_problem *problem, const char *arch,
                                  attune_request *out);
/* Its tuner, NULL without a GPU or where nothing may be compiled; and its context. */
attune__online *attune__jit_online(attune_jit *jit, attune_context **context);
/* Tunes on another host from now on: a test's. Before anything was tuned. */
attune_status attune__jit_use_host(attune_jit *jit, const attune__online_host *host);
/* ATTUNE_BUSY while a capture is seen. */
attune_status attune__may_tune(attune__device *device);

#endif
