/*
** tree.c - what is below an object: the links that lead there.
** SPDX-License-Identifier: MIT
**
**        root                 member: an object below a root
**       / x  \ y              link:   a field of a member that holds a member
**      a      b               via:    of the links to a member, the one on its
**       \ p  / q                      way from the root
**         c
**
** An object that is below several roots has a member for each.  All links of a
** member are in two lists, those to it and those from it, and in a hash table
** by parent and key.
**
** Invariant: following `via` from a member, one comes to its root, or to one
** that is *loose*: it has lost its `via`, and is in the list of the loose.
** There is no cycle.  A write changes one link, so it makes at most one member
** loose, at once and whatever is below it; a move links it again before anybody
** looks, and that is all.
**
** When somebody does look, the loose are resolved: each takes another of its
** links, if one comes from where there is a way; else it has none, and what it
** led to is loose too.  Those that are left are released.
*/
#include "engine.h"

#include <string.h>

/* {======================================================
** Members and links
** ======================================================= */

static mwi_node *member_at(const mw_engine *e, uint32_t i) {
  return (mwi_node *)mwi_pool_at(&e->deep.members, i, sizeof(mwi_node));
}

static mwi_link *link_at(const mw_engine *e, uint32_t i) {
  return (mwi_link *)mwi_pool_at(&e->deep.links, i, sizeof(mwi_link));
}

static int is_root(const mw_engine *e, uint32_t m) {
  return member_at(e, m)->reach == m;
}

/* The first member of an object, 0 when it has none. */
static uint32_t first_member(const mw_engine *e, mw_handle obj) {
  const mwi_object *r;
  if (!mwi_identity_is_valid(&e->identity, obj)) return 0;
  r = mwi_object_of(&e->watch, mw_slot(obj));
  return (r == NULL) ? 0 : r->member;
}

/* The member of an object in a reach. */
static uint32_t find_member(const mw_engine *e, mw_handle obj, uint32_t reach) {
  uint32_t m = first_member(e, obj);
  while (m != 0 && member_at(e, m)->reach != reach) m = member_at(e, m)->next;
  return m;
}

/* Makes `m`, just taken, the member of an object that has a record. */
static void init_member(mw_engine *e, uint32_t m, mw_handle obj,
                        uint32_t reach) {
  mwi_object *r = mwi_object_of(&e->watch, mw_slot(obj));
  mwi_node *member = member_at(e, m);
  memset(member, 0, sizeof(*member));
  member->obj = obj;
  member->reach = reach;
  member->next = r->member;
  r->member = m;
}

/* }====================================================== */

/* {======================================================
** From a field to its link
** ======================================================= */

#define engine_of(h) (((const struct mwi_tree_fields *)(const void *)(h))->e)

#include "hash.h"

#define asked_in(h) \
  (&((const struct mwi_tree_fields *)(const void *)(h))->asked)
#define field_in(h, i) ((i) == 0 ? asked_in(h) : link_at(engine_of(h), i))
#define field_hash(i) hash_of(field_in(h, i))
#define field_equal(a, b) same_field(field_in(h, a), field_in(h, b))

static inline uint32_t hash_of(const mwi_link *l) {
  uint64_t n = l->parent;
  n = (n << 3 | (uint64_t)l->key.type) * 0x9E3779B97F4A7C15u;
  if (l->key.type != MW_TNIL) n ^= (uint64_t)l->key.u.i;
  return (uint32_t)((n * 0x9E3779B97F4A7C15u) >> 32);
}

static inline int same_field(const mwi_link *a, const mwi_link *b) {
  return a->parent == b->parent && mw_value_equal(&a->key, &b->key);
}

MWI_KLIB_BEGIN
__KHASH_TYPE(fields, uint32_t, char)
struct mwi_tree_fields {
  kh_fields_t table; /* first: a table is its struct */
  mw_engine *e;
  mwi_link asked; /* under number 0 */
};
__KHASH_IMPL(fields, static inline klib_unused, uint32_t, char, 0, field_hash,
             field_equal)
MWI_KLIB_END

/* Makes room for `n` more. */
static int reserve(mw_engine *e, khint_t n) {
  mwi_tree *part = &e->deep;
  kh_fields_t *h;
  if (part->fields == NULL) {
    part->fields = (struct mwi_tree_fields *)mwi_new(e, sizeof(*part->fields));
    if (part->fields == NULL) return 0;
    part->fields->e = e;
  }
  h = &part->fields->table;
  while (h->n_occupied + n > h->upper_bound) {
    khint_t live = h->size + n;
    if (kh_resize_fields(h, (live > h->upper_bound / 2) ? h->n_buckets + 1
                                                        : h->n_buckets) < 0)
      return 0;
  }
  return 1;
}

static khint_t locate(const mw_engine *e, uint32_t parent,
                      const mw_value *key) {
  struct mwi_tree_fields *fields = e->deep.fields;
  fields->asked.parent = parent;
  fields->asked.key = *key;
  return kh_get_fields(&fields->table, 0);
}

/* The link of a field, 0 when it has none. */
static uint32_t find_link(const mw_engine *e, uint32_t parent,
                          const mw_value *key) {
  khint_t k;
  if (e->deep.fields == NULL) return 0;
  k = locate(e, parent, key);
  return (k == kh_end(&e->deep.fields->table))
             ? 0
             : kh_key(&e->deep.fields->table, k);
}

/* There is room for it. */
static void put_link(mw_engine *e, uint32_t i) {
  int ret;
  kh_put_fields(&e->deep.fields->table, i, &ret);
}

static void remove_link(mw_engine *e, uint32_t i) {
  const mwi_link *l = link_at(e, i);
  kh_del_fields(&e->deep.fields->table, locate(e, l->parent, &l->key));
}

void mwi_tree_close(mw_engine *e) {
  mwi_tree *part = &e->deep;
  if (part->fields != NULL) {
    kh_fields_t *h = &part->fields->table;
    mwi_klib_clear(h);
    mwi_free(e, part->fields, sizeof(*part->fields));
  }
  mwi_column_drop(e, &part->members.items, MWI_PAGE * sizeof(mwi_node));
  mwi_column_drop(e, &part->links.items, MWI_PAGE * sizeof(mwi_link));
}

/* }====================================================== */

/* {======================================================
** Ways
** ======================================================= */

/* Follows `via` to its end, but not beyond `stop`. */
static uint32_t end_of_way(const mw_engine *e, uint32_t m, uint32_t stop) {
  while (m != stop && member_at(e, m)->via != 0)
    m = link_at(e, member_at(e, m)->via)->parent;
  return m;
}

static int has_way(const mw_engine *e, uint32_t m) {
  return is_root(e, end_of_way(e, m, 0));
}

static void loosen(mw_engine *e, uint32_t m) {
  mwi_node *member = member_at(e, m);
  member->via = 0;
  if (member->queued) return;
  member->queued = 1;
  member->chain = e->deep.loose;
  e->deep.loose = m;
}

/* The record of the object that is a key, NULL for other keys. */
static mwi_object *record_of_key(const mw_engine *e, const mw_value *key) {
  mw_handle h = (mw_handle)key->u.i;
  if (key->type != MW_TOBJECT || !mwi_identity_is_valid(&e->identity, h))
    return NULL;
  return mwi_object_of(&e->watch, mw_slot(h));
}

/* The engine keeps a key in one link more, or less. */
static void keep_key(mw_engine *e, const mw_value *key) {
  mwi_object *r = record_of_key(e, key);
  if (r != NULL && r->keyed < UINT16_MAX) r->keyed++;
  mwi_watch_retain(e, key);
}

static void drop_key(mw_engine *e, const mw_value *key) {
  mwi_object *r = record_of_key(e, key);
  if (r != NULL && r->keyed < UINT16_MAX) r->keyed--;
  mwi_watch_release(e, key);
}

/* Takes a link out of everything and frees it; its child may get loose. */
static void end_link(mw_engine *e, uint32_t i) {
  mwi_link *l = link_at(e, i);
  mwi_node *parent = member_at(e, l->parent), *child = member_at(e, l->child);
  if (l->prev_in != 0)
    link_at(e, l->prev_in)->next_in = l->next_in;
  else
    child->ins = l->next_in;
  if (l->next_in != 0) link_at(e, l->next_in)->prev_in = l->prev_in;
  if (l->prev_out != 0)
    link_at(e, l->prev_out)->next_out = l->next_out;
  else
    parent->outs = l->next_out;
  if (l->next_out != 0) link_at(e, l->next_out)->prev_out = l->prev_out;
  if (child->via == i) loosen(e, l->child);
  drop_key(e, &l->key);
  l->parent = 0;
  mwi_pool_give(&e->deep.links, i, sizeof(mwi_link));
}

/* Makes `i`, just taken, a link. */
static void init_link(mw_engine *e, uint32_t i, uint32_t parent, uint32_t child,
                      const mw_value *key) {
  mwi_link *l = link_at(e, i);
  mwi_node *p = member_at(e, parent), *c = member_at(e, child);
  memset(l, 0, sizeof(*l));
  l->parent = parent;
  l->child = child;
  l->key = *key;
  keep_key(e, key);
  if ((l->next_in = c->ins) != 0) link_at(e, l->next_in)->prev_in = i;
  if ((l->next_out = p->outs) != 0) link_at(e, l->next_out)->prev_out = i;
  c->ins = p->outs = i;
  if (c->via != 0 || is_root(e, child)) return;
  if (c->outs == 0 || end_of_way(e, parent, child) != child) c->via = i;
}

/* Takes a member from its object, with all its links. */
static void end_member(mw_engine *e, uint32_t m) {
  mwi_node *member = member_at(e, m);
  uint32_t *at = &mwi_object_of(&e->watch, mw_slot(member->obj))->member, i;
  while (*at != m) at = &member_at(e, *at)->next;
  *at = member->next;
  while ((i = member->ins) != 0) {
    remove_link(e, i);
    end_link(e, i);
  }
  while ((i = member->outs) != 0) {
    remove_link(e, i);
    end_link(e, i);
  }
}

/* }====================================================== */

/* {======================================================
** The loose
** ======================================================= */

/* Takes another link to a loose member, if there is one from a member that has
** a way. */
static int find_way(mw_engine *e, uint32_t m) {
  uint32_t i = member_at(e, m)->ins;
  while (i != 0 && !has_way(e, link_at(e, i)->parent))
    i = link_at(e, i)->next_in;
  member_at(e, m)->via = i;
  return i != 0;
}

/* What a member without a way led to becomes loose: it joins the list, behind
** `m`, if it is not there already.  Returns whether there was any. */
static int loosen_children(mw_engine *e, uint32_t m) {
  uint32_t i, before = e->deep.loose;
  int any = 0;
  e->deep.loose = member_at(e, m)->chain;
  for (i = member_at(e, m)->outs; i != 0; i = link_at(e, i)->next_out) {
    uint32_t child = link_at(e, i)->child;
    if (member_at(e, child)->via != i) continue;
    loosen(e, child);
    any = 1;
  }
  member_at(e, m)->chain = e->deep.loose;
  e->deep.loose = before;
  return any;
}

static int is_lost(const mw_engine *e, uint32_t m) {
  const mwi_node *member = member_at(e, m);
  return member->via == 0 && member->obj != MW_NONE && !is_root(e, m);
}

/* One that finds a way may be a way for others, so all look again.  It never
** loses that way: what is lost is not above it. */
static void look_for_ways(mw_engine *e) {
  int changed = 1;
  uint32_t m;
  while (changed) {
    changed = 0;
    for (m = e->deep.loose; m != 0; m = member_at(e, m)->chain)
      if (is_lost(e, m) && (find_way(e, m) || loosen_children(e, m)))
        changed = 1;
  }
}

static void give_member(mw_engine *e, uint32_t m) {
  mwi_pool_give(&e->deep.members, m, sizeof(mwi_node));
}

/* The list of the loose becomes empty. */
static void resolve(mw_engine *e) {
  mwi_tree *part = &e->deep;
  uint32_t m;
  look_for_ways(e);
  while ((m = part->loose) != 0) {
    mwi_node *member = member_at(e, m);
    part->loose = member->chain;
    member->queued = 0;
    if (member->obj == MW_NONE) {
      give_member(e, m);
    } else if (is_lost(e, m)) {
      end_member(e, m);
      member->chain = part->released;
      part->released = m;
    }
  }
}

/* The object of a member is dead, or no longer a root. */
static void drop_member(mw_engine *e, uint32_t m) {
  int root = is_root(e, m);
  end_member(e, m);
  member_at(e, m)->obj = MW_NONE;
  if (root) resolve(e); /* before the number stands for another root */
  if (!member_at(e, m)->queued) give_member(e, m);
}

/* A table with weak keys loses a field when the key dies, and nobody tells. */
static void end_links_under(mw_engine *e, mw_handle key) {
  uint32_t i;
  for (i = 1; i <= e->deep.links.n; i++) {
    const mwi_link *l = link_at(e, i);
    if (l->parent == 0 || l->key.type != MW_TOBJECT) continue;
    if ((mw_handle)l->key.u.i != key) continue;
    remove_link(e, i);
    end_link(e, i);
  }
}

void mwi_tree_forget(mw_engine *e, uint32_t slot) {
  mwi_object *r = mwi_object_of(&e->watch, slot);
  if (r != NULL && r->keyed > 0)
    end_links_under(e, mwi_identity_handle(&e->identity, slot));
  while (r != NULL && r->member != 0) drop_member(e, r->member);
}

mw_handle mw_tree_released(mw_engine *e) {
  uint32_t m;
  resolve(e);
  while ((m = e->deep.released) != 0) {
    mw_handle obj = member_at(e, m)->obj;
    e->deep.released = member_at(e, m)->chain;
    give_member(e, m);
    if (mwi_identity_is_valid(&e->identity, obj) && !mw_tree_has(e, obj))
      return obj;
  }
  return MW_NONE;
}

int mw_tree_has_orphans(const mw_engine *e) {
  return e->deep.loose != 0 || e->deep.released != 0;
}

/* }====================================================== */

/* {======================================================
** Including and linking
** ======================================================= */

static uint32_t own_reach(const mw_engine *e, mw_handle obj) {
  uint32_t m = first_member(e, obj);
  while (m != 0 && !is_root(e, m)) m = member_at(e, m)->next;
  return m;
}

int mw_root_begin(mw_engine *e, mw_handle obj) {
  uint32_t m;
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  if (own_reach(e, obj) != 0) return MW_OK;
  if (mwi_object_need(e, obj) == NULL) return MW_NOMEM;
  m = mwi_pool_take(e, &e->deep.members, sizeof(mwi_node));
  if (m == 0) return MW_NOMEM;
  init_member(e, m, obj, m);
  return MW_NEW;
}

int mw_root_end(mw_engine *e, mw_handle obj) {
  uint32_t m = own_reach(e, obj);
  if (m == 0) return MW_STALE;
  drop_member(e, m);
  return MW_OK;
}

int mw_tree_has(const mw_engine *e, mw_handle obj) {
  return first_member(e, obj) != 0;
}

int mw_tree_is_below(const mw_engine *e, mw_handle obj) {
  uint32_t m = first_member(e, obj);
  while (m != 0 && is_root(e, m)) m = member_at(e, m)->next;
  return m != 0;
}

/* What a link needs: room, a link and perhaps a member for each root. */
typedef struct needs {
  uint32_t links, members; /* lists */
} needs;

static int take_into(mw_engine *e, mwi_pool *pool, uint32_t *list,
                     size_t width) {
  uint32_t i = mwi_pool_take(e, pool, width);
  if (i == 0) return 0;
  *(uint32_t *)mwi_pool_at(pool, i, width) = *list;
  *list = i;
  return 1;
}

static uint32_t take_from(const mwi_pool *pool, uint32_t *list, size_t width) {
  uint32_t i = *list;
  *list = *(uint32_t *)mwi_pool_at(pool, i, width);
  return i;
}

static void give_needs(mw_engine *e, needs *n) {
  mwi_tree *part = &e->deep;
  while (n->links != 0)
    mwi_pool_give(&part->links,
                  take_from(&part->links, &n->links, sizeof(mwi_link)),
                  sizeof(mwi_link));
  while (n->members != 0)
    give_member(e, take_from(&part->members, &n->members, sizeof(mwi_node)));
}

static int take_needs(mw_engine *e, uint32_t parent, const mw_value *key,
                      mw_handle child, needs *n) {
  mwi_tree *part = &e->deep;
  uint32_t m;
  khint_t count = 0;
  int ok = mwi_object_need(e, child) != NULL;
  if (key->type == MW_TOBJECT &&
      mwi_identity_is_valid(&e->identity, (mw_handle)key->u.i))
    ok = ok && mwi_object_need(e, (mw_handle)key->u.i) != NULL;
  for (m = parent; ok && m != 0; m = member_at(e, m)->next) {
    count++;
    ok = take_into(e, &part->links, &n->links, sizeof(mwi_link));
    if (ok && find_member(e, child, member_at(e, m)->reach) == 0)
      ok = take_into(e, &part->members, &n->members, sizeof(mwi_node));
  }
  if (ok && reserve(e, count)) return 1;
  give_needs(e, n);
  return 0;
}

/* Links the parent's member `p` to the child's in the same reach.  Returns
** MW_NEW if that is new. */
static int link_members(mw_engine *e, uint32_t p, const mw_value *key,
                        mw_handle child, needs *n) {
  mwi_tree *part = &e->deep;
  uint32_t reach = member_at(e, p)->reach, old = find_link(e, p, key), i;
  uint32_t m = find_member(e, child, reach);
  int code = (m == 0) ? MW_NEW : MW_OK;
  if (old != 0 && link_at(e, old)->child == m) return code;
  if (m == 0) {
    m = take_from(&part->members, &n->members, sizeof(mwi_node));
    init_member(e, m, child, reach);
  }
  i = take_from(&part->links, &n->links, sizeof(mwi_link));
  if (old != 0) remove_link(e, old);
  init_link(e, i, p, m, key);
  put_link(e, i);
  if (old != 0) end_link(e, old);
  return code;
}

int mw_tree_link(mw_engine *e, mw_handle parent, const mw_value *key,
                 mw_handle child) {
  needs n = {0, 0};
  uint32_t p = first_member(e, parent);
  int code = MW_OK;
  if (p == 0 || !mwi_identity_is_valid(&e->identity, child)) return MW_STALE;
  if (!take_needs(e, p, key, child, &n)) return MW_NOMEM;
  for (; p != 0; p = member_at(e, p)->next)
    if (link_members(e, p, key, child, &n) == MW_NEW) code = MW_NEW;
  give_needs(e, &n);
  return code;
}

void mw_tree_unlink(mw_engine *e, mw_handle parent, const mw_value *key) {
  uint32_t p, i;
  for (p = first_member(e, parent); p != 0; p = member_at(e, p)->next) {
    i = find_link(e, p, key);
    if (i == 0) continue;
    remove_link(e, i);
    end_link(e, i);
  }
}

/* }====================================================== */

/* {======================================================
** Upwards
** ======================================================= */

/* The member of `obj` in that reach if there is a way to it, else 0. */
static uint32_t settled_member(mw_engine *e, mw_handle obj, uint32_t reach) {
  uint32_t m = find_member(e, obj, reach);
  if (m == 0 || has_way(e, m)) return m;
  resolve(e);
  return find_member(e, obj, reach);
}

mw_handle mwi_tree_root(mw_engine *e, mw_handle obj, uint32_t *after,
                        mw_value *key) {
  uint32_t m, next = 0;
  for (m = first_member(e, obj); m != 0; m = member_at(e, m)->next) {
    uint32_t reach = member_at(e, m)->reach;
    if (reach > *after && reach != m && (next == 0 || reach < next))
      next = reach;
  }
  if (next == 0) return MW_NONE;
  *after = next;
  m = settled_member(e, obj, next);
  if (m == 0) return mwi_tree_root(e, obj, after, key);
  for (; m != next; m = link_at(e, member_at(e, m)->via)->parent)
    *key = link_at(e, member_at(e, m)->via)->key;
  return member_at(e, next)->obj;
}

int mw_tree_above(mw_engine *e, mw_handle root, mw_handle obj,
                  mw_handle *parent, mw_value *key) {
  uint32_t reach = own_reach(e, root), m;
  if (reach == 0 || obj == root) return MW_STALE;
  m = settled_member(e, obj, reach);
  if (m == 0) return MW_STALE;
  *key = link_at(e, member_at(e, m)->via)->key;
  *parent = member_at(e, link_at(e, member_at(e, m)->via)->parent)->obj;
  return MW_OK;
}

/* }====================================================== */
