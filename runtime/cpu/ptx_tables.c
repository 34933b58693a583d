/* ptx_tables.c - the list of opcode tables. A new table is a file ptx_ops_*.c and a line here. */
#include "ptx.h"

const attune__opcodes *const attune__ptx_tables[] = {
    &attune__ops_int,      &attune__ops_float,    &attune__ops_convert,
    &attune__ops_memory,   &attune__ops_sync,     &attune__ops_mma,
    &attune__ops_matrix,   &attune__ops_wgmma,    &attune__ops_half,
    &attune__ops_warp,     &attune__ops_atomic,   &attune__ops_async,
    &attune__ops_cp_async, &attune__ops_mbarrier, &attune__ops_bulk,
    &attune__ops_tma,      &attune__ops_cluster,  NULL};
