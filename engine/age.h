/*
** age.h - the stamps of writes.
** SPDX-License-Identifier: MIT
**
** The stamp of a write: its age in the high half, the default clock's
** generation + 1 in the low half.
*/
#ifndef MWI_AGE_H
#define MWI_AGE_H

#define mwi_stamp_age(stamp) ((uint32_t)((stamp) >> 32))
#define mwi_stamp_changed(stamp) ((uint32_t)(stamp))

#endif
