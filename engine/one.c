/*
** one.c - all of the engine in one unit, for hosts that like it so.
** SPDX-License-Identifier: MIT
**
** To be compiled with MW_ONE defined, and no other file of the engine.  Without
** MW_ONE, nothing is in here, so that "all files" can be compiled as well.
**
** Some files have hash tables, and each of these says for itself how a table
** knows its engine.
*/
#include "engine.h"

#ifdef MW_ONE

#include "engine.c"

#include "age.c"
#include "check.c"
#include "clock.c"
#include "dump.c"
#include "hierarchy.c"
#include "journal.c"
#include "json.c"
#include "outline.c"
#include "pool.c"
#include "reader.c"
#include "trace.c"
#include "trace_file.c"

#include "identity.c"
#undef engine_of
#undef engine_of
#include "tree.c"
#undef engine_of
#undef entry_hash
#undef entry_equal
#include "watch.c"

#endif
