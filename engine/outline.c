/*
** outline.c - what a reader knows of the objects below a root.
** SPDX-License-Identifier: MIT
**
**        root                 member: an object below the root
**       / x  \ y              tie:    a field of a member that holds a member
**      a      b               via:    the tie to a member that is on the
**       \ p  / q                      member's way from the root
**         c
**
** An outline is the shape of what a reader has read so far: the tree of
** tree.c is that of now, with the writes of open transactions, and without what
** was taken out since.  There are no values in an outline, only which field
** holds which object.
**
** A look changes the ties of the fields that were written, and then asks which
** members have still a way from the root.  Invariant, between two looks: from
** each member, `via` leads to the root.  A member whose `via` goes is in doubt.
** When all ties are changed, a member in doubt takes another tie if that comes
** from a member with a way; so a move costs no more than the depth.  Otherwise
** all whose way leads through the member are in doubt as well: what is shared
** with the rest, or was put elsewhere, takes another tie in the same manner, so
** that what is below is not visited.  The rest is lost, but for those to which
** a tie comes from what has found a way later.
**
** A member that comes, or comes back, has fields that are not linked yet: it is
** in a list, of which `mwi_outline_next` returns those that have a way.
**
** Until a look is settled, the same look may begin again: changing a tie twice
** does nothing the second time.
*/
#include <string.h>

#include "engine.h"

#define member(i) mwi_known_at(o, i)
#define tie(i) mwi_tie_at(o, i)

/* {======================================================
** Tables
** ======================================================= */

static uint32_t hash_object(mw_handle obj) {
  return (uint32_t)((obj * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
}

uint32_t mwi_outline_find(const mwi_outline *o, mw_handle obj) {
  mwi_search at;
  uint32_t i = mwi_table_first(&o->objects, hash_object(obj), &at);
  while (i != 0 && member(i)->obj != obj) i = mwi_table_next(&o->objects, &at);
  return i;
}

static uint32_t find_tie(const mwi_outline *o, uint32_t parent,
                         const mw_value *key) {
  mwi_search at;
  uint32_t i = mwi_table_first(&o->fields, mwi_key_hash(parent, key), &at);
  for (; i != 0; i = mwi_table_next(&o->fields, &at))
    if (tie(i)->parent == parent && mw_value_equal(&tie(i)->key, key)) break;
  return i;
}

/* }====================================================== */

/* {======================================================
** Members and ties
** ======================================================= */

static void doubt(mwi_outline *o, uint32_t m) {
  if (member(m)->doubted) return;
  member(m)->doubted = 1;
  member(m)->doubt = 0;
  if (o->last_doubt != 0)
    member(o->last_doubt)->doubt = m;
  else
    o->doubt = m;
  o->last_doubt = m;
}

static void to_scan(mwi_outline *o, uint32_t m) {
  if (member(m)->scans) return;
  member(m)->scans = 1;
  member(m)->scan = o->scan;
  o->scan = m;
}

/* The reader does not know the member, or not any more. */
static void to_tell(mwi_outline *o, uint32_t m) {
  if (member(m)->comes) return;
  member(m)->comes = 1;
  member(m)->came = o->came;
  o->came = m;
}

static uint32_t add_known(mw_engine *e, mwi_outline *o, mw_handle obj) {
  uint32_t m;
  if (!mwi_table_reserve(e, &o->objects, 1)) return 0;
  m = mwi_pool_take(e, &o->members, sizeof(mwi_known));
  if (m == 0) return 0;
  memset(member(m), 0, sizeof(mwi_known));
  member(m)->obj = obj;
  mwi_table_put(e, &o->objects, hash_object(obj), m);
  return m;
}

static void free_member(mwi_outline *o, uint32_t m) {
  mwi_table_take(&o->objects, hash_object(member(m)->obj), m);
  mwi_pool_give(&o->members, m, sizeof(mwi_known));
}

static void end_tie(mw_engine *e, mwi_outline *o, uint32_t i) {
  mwi_tie *t = tie(i);
  mwi_table_take(&o->fields, mwi_key_hash(t->parent, &t->key), i);
  if (t->next_in != 0) tie(t->next_in)->prev_in = t->prev_in;
  *(t->prev_in != 0 ? &tie(t->prev_in)->next_in : &member(t->child)->ins) =
      t->next_in;
  if (t->next_out != 0) tie(t->next_out)->prev_out = t->prev_out;
  *(t->prev_out != 0 ? &tie(t->prev_out)->next_out : &member(t->parent)->outs) =
      t->next_out;
  if (member(t->child)->via == i) {
    member(t->child)->via = 0;
    doubt(o, t->child);
  }
  mwi_host_release(e, &t->key);
  mwi_pool_give(&o->ties, i, sizeof(mwi_tie));
}

static void end_outs(mw_engine *e, mwi_outline *o, uint32_t m) {
  while (member(m)->outs != 0) end_tie(e, o, member(m)->outs);
}

void mwi_outline_untie(mw_engine *e, mwi_outline *o, uint32_t parent,
                       const mw_value *key) {
  uint32_t i = find_tie(o, parent, key);
  if (i != 0) end_tie(e, o, i);
}

mw_handle mwi_outline_child(const mwi_outline *o, uint32_t parent,
                            const mw_value *key) {
  uint32_t i = find_tie(o, parent, key);
  return (i == 0) ? MW_NONE : member(tie(i)->child)->obj;
}

int mwi_outline_holds(const mwi_outline *o, uint32_t parent, mw_handle child) {
  uint32_t m = mwi_outline_find(o, child), i = (m == 0) ? 0 : member(m)->ins;
  while (i != 0 && tie(i)->parent != parent) i = tie(i)->next_in;
  return i != 0;
}

uint32_t mwi_outline_tie_of(const mwi_outline *o, uint32_t parent,
                            const mw_value *key, mw_handle child) {
  uint32_t i = find_tie(o, parent, key);
  return (i != 0 && member(tie(i)->child)->obj == child) ? i : 0;
}

/* A way to a member that was lost: so to all that were lost with it. */
static void regain(mwi_outline *o, uint32_t m, uint32_t via) {
  uint32_t work = m, i;
  member(m)->lost = 0;
  member(m)->via = via;
  member(m)->work = 0;
  while (work != 0) {
    m = work;
    work = member(m)->work;
    if (member(m)->unseen) to_scan(o, m);
    for (i = member(m)->outs; i != 0; i = tie(i)->next_out) {
      mwi_known *child = member(tie(i)->child);
      if (!child->lost) continue;
      child->lost = 0;
      child->via = i;
      child->work = work;
      work = tie(i)->child;
    }
  }
}

static uint32_t new_tie(mw_engine *e, mwi_outline *o, uint32_t parent,
                        const mw_value *key, uint32_t child) {
  uint32_t i;
  mwi_tie *t;
  if (!mwi_table_reserve(e, &o->fields, 1)) return 0;
  i = mwi_pool_take(e, &o->ties, sizeof(mwi_tie));
  if (i == 0) return 0;
  t = tie(i);
  memset(t, 0, sizeof(*t));
  t->parent = parent;
  t->child = child;
  t->key = *key;
  mwi_host_retain(e, key);
  t->next_in = member(child)->ins;
  if (t->next_in != 0) tie(t->next_in)->prev_in = i;
  member(child)->ins = i;
  t->next_out = member(parent)->outs;
  if (t->next_out != 0) tie(t->next_out)->prev_out = i;
  member(parent)->outs = i;
  mwi_table_put(e, &o->fields, mwi_key_hash(parent, key), i);
  return i;
}

uint32_t mwi_outline_tie(mw_engine *e, mwi_outline *o, uint32_t parent,
                         const mw_value *key, mw_handle child, int is_leaf) {
  uint32_t former = find_tie(o, parent, key), m = mwi_outline_find(o, child);
  uint32_t i;
  int is_new = m == 0;
  if (former != 0 && tie(former)->child == m) return former;
  if (is_new) m = add_known(e, o, child);
  if (m == 0) return 0;
  i = new_tie(e, o, parent, key, m);
  if (i == 0) {
    if (is_new) free_member(o, m);
    return 0;
  }
  if (former != 0) end_tie(e, o, former); /* last: the key is kept */
  if (is_new) {
    member(m)->via = i;
    member(m)->unseen = !is_leaf;
    to_tell(o, m);
    if (!is_leaf) to_scan(o, m);
  } else if (member(m)->lost && !member(parent)->lost) {
    regain(o, m, i);
  } else if (o->unsure && member(m)->via == 0 && m != o->root) {
    member(m)->via = i; /* the parent has a way */
    o->search++;
  }
  return i;
}

/* }====================================================== */

/* {======================================================
** Looks
** ======================================================= */

int mwi_outline_begin(mw_engine *e, mwi_outline *o, mw_handle root) {
  o->root = add_known(e, o, root);
  if (o->root == 0) return MW_NOMEM;
  member(o->root)->unseen = 1;
  to_tell(o, o->root);
  to_scan(o, o->root);
  return MW_OK;
}

void mwi_outline_end(mw_engine *e, mwi_outline *o) {
  uint32_t i, t;
  for (i = 0; i < o->fields.n_buckets; i++)
    if ((t = mwi_table_at(&o->fields, i)) != 0)
      mwi_host_release(e, &tie(t)->key);
  mwi_column_drop(e, &o->members.items, MWI_PAGE * sizeof(mwi_known));
  mwi_column_drop(e, &o->ties.items, MWI_PAGE * sizeof(mwi_tie));
  mwi_table_drop(e, &o->objects);
  mwi_table_drop(e, &o->fields);
  memset(o, 0, sizeof(*o));
}

size_t mwi_outline_bytes(const mwi_outline *o) {
  return mwi_column_bytes(&o->members.items, MWI_PAGE * sizeof(mwi_known)) +
         mwi_column_bytes(&o->ties.items, MWI_PAGE * sizeof(mwi_tie)) +
         mwi_table_bytes(&o->objects) + mwi_table_bytes(&o->fields);
}

void mwi_outline_doubt(mw_engine *e, mwi_outline *o, mw_handle obj) {
  uint32_t m = mwi_outline_find(o, obj);
  if (m == 0) return;
  end_outs(e, o, m);
  member(m)->unseen = 1;
  member(m)->stale = member(m)->known;
  to_tell(o, m);
  to_scan(o, m);
}

/* What waited for a way is to be scanned. */
static void open_later(mwi_outline *o) {
  uint32_t m;
  o->unsure = 0;
  while ((m = o->later) != 0) {
    o->later = member(m)->scan;
    member(m)->scan = o->scan;
    o->scan = m;
  }
}

void mwi_outline_look(mw_engine *e, mwi_outline *o) {
  uint32_t m;
  o->looks++;
  open_later(o);
  for (m = o->doubt; m != 0; m = member(m)->doubt) {
    if (member(m)->lost && member(m)->unseen) to_scan(o, m);
    member(m)->lost = 0;
  }
  for (m = o->scan; m != 0; m = member(m)->scan)
    if (member(m)->unseen) end_outs(e, o, m);
}

/* Has the member a way from the root, without one of the ties in doubt?  A
** climb that finds no root marks its members, so that all climbs of a search
** together visit each member once.  A mark from long ago does no harm: see
** `find_again`. */
static int has_way(const mwi_outline *o, uint32_t m) {
  uint32_t at = m;
  while (member(at)->seen != o->search && member(at)->via != 0)
    at = tie(member(at)->via)->parent;
  if (at == o->root) return 1;
  while (member(m)->seen != o->search) {
    member(m)->seen = o->search;
    if (member(m)->via != 0) m = tie(member(m)->via)->parent;
  }
  return 0;
}

/* Gives the member a way that does not lead through others in doubt. */
static void find_way(mwi_outline *o, uint32_t m) {
  uint32_t i;
  for (i = member(m)->ins; i != 0; i = tie(i)->next_in) {
    if (!has_way(o, tie(i)->parent)) continue;
    member(m)->via = i;
    o->search++; /* what is marked may have a way now */
    return;
  }
}

/* The member is lost, with all whose way leads through the member and that have
** no other: what is lost has no `via`, so no way through it counts. */
static void lose(mwi_outline *o, uint32_t m) {
  uint32_t work = m, i;
  member(m)->lost = 1;
  member(m)->work = 0;
  while (work != 0) {
    m = work;
    work = member(m)->work;
    for (i = member(m)->outs; i != 0; i = tie(i)->next_out) {
      mwi_known *child = member(tie(i)->child);
      if (child->via != i) continue;
      child->via = 0;
      find_way(o, tie(i)->child);
      if (child->via != 0) continue;
      child->lost = 1;
      doubt(o, tie(i)->child);
      child->work = work;
      work = tie(i)->child;
    }
  }
}

/* A lost member has a way if a tie comes from a member that is not lost. */
static void find_again(mwi_outline *o, uint32_t m) {
  uint32_t i = member(m)->ins;
  while (i != 0 && member(tie(i)->parent)->lost) i = tie(i)->next_in;
  if (i != 0) regain(o, m, i);
}

void mwi_outline_ways(mwi_outline *o) {
  uint32_t m;
  o->search++;
  for (m = o->doubt; m != 0; m = member(m)->doubt) {
    if (member(m)->via == 0) find_way(o, m);
    if (member(m)->via == 0) o->unsure = 1;
  }
}

void mwi_outline_resolve(mwi_outline *o) {
  uint32_t m;
  mwi_outline_ways(o);
  for (m = o->doubt; m != 0; m = member(m)->doubt)
    if (member(m)->via == 0 && !member(m)->lost) lose(o, m);
  for (m = o->doubt; m != 0; m = member(m)->doubt)
    if (member(m)->lost) find_again(o, m);
  open_later(o);
}

uint32_t mwi_outline_next(mwi_outline *o) {
  uint32_t m;
  while ((m = o->scan) != 0) {
    int is_open = member(m)->unseen && !member(m)->lost;
    int waits = is_open && o->unsure && !has_way(o, m);
    if (is_open && !waits) return m;
    o->scan = member(m)->scan;
    if (waits) {
      member(m)->scan = o->later;
      o->later = m;
    } else {
      member(m)->scans = 0;
    }
  }
  return 0;
}

void mwi_outline_seen(mwi_outline *o, uint32_t m) { member(m)->unseen = 0; }

void mwi_outline_settle(mw_engine *e, mwi_outline *o) {
  uint32_t m, next;
  for (m = o->came; m != 0; m = member(m)->came) {
    member(m)->comes = member(m)->stale = 0;
    member(m)->known = 1;
  }
  for (m = o->scan; m != 0; m = member(m)->scan) member(m)->scans = 0;
  m = o->doubt;
  o->doubt = o->last_doubt = o->scan = o->came = 0;
  for (; m != 0; m = next) {
    next = member(m)->doubt;
    member(m)->doubted = 0;
    if (member(m)->lost) {
      while (member(m)->ins != 0) end_tie(e, o, member(m)->ins);
      end_outs(e, o, m);
      free_member(o, m);
    } else if (member(m)->via == 0) {
      doubt(o, m); /* since the members in doubt were resolved */
    }
  }
}

/* }====================================================== */
