/*
** age.c - which writes came before which moment.
** SPDX-License-Identifier: MIT
**
** Time is divided into ages.  The record of each object has the age of the
** object's last write, so one comparison says whether an object is as it was at
** the end of an age.  An edge of tree.c has the ages in which its fields came
** to hold the object, and a node the age in which a field last stopped holding
** its object: so a path says whether it has led there since.  The record of an
** object has the age in which the object last left a reach.
*/
#include "engine.h"

uint32_t mw_age_end(mw_engine *e) {
  uint32_t age = mwi_stamp_age(e->stamp);
  mw_tree_resolve(e); /* what has gone went in this age */
  if (age < UINT32_MAX) e->stamp += UINT64_C(1) << 32;
  return age;
}

int mw_object_is_older(const mw_engine *e, mw_handle obj, uint32_t age) {
  const mwi_object *r = mwi_object_find(&e->watch, obj);
  return r == NULL || (mwi_stamp_age(r->stamp) <= age && age < UINT32_MAX);
}
