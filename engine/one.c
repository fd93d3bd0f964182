/*
** one.c - all of the engine in one unit, for hosts that like it so.
** SPDX-License-Identifier: MIT
**
** To be compiled with MW_ONE defined, and no other file of the engine.  Without
** MW_ONE, nothing is in here, so that "all files" can be compiled as well.
*/
#include "engine.h"

#ifdef MW_ONE

#include "age.c"
#include "check.c"
#include "clock.c"
#include "dump.c"
#include "engine.c"
#include "hierarchy.c"
#include "identity.c"
#include "journal.c"
#include "json.c"
#include "outline.c"
#include "pool.c"
#include "reader.c"
#include "table.c"
#include "trace.c"
#include "trace_file.c"
#include "tree.c"
#include "watch.c"

#endif
