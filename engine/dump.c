/*
** dump.c - an engine as a text, for debugging.
** SPDX-License-Identifier: MIT
**
**     object 7#2: 5 writes, watched
**       all fields
**         watch 12: guard 41, once, deep
**       field string 3
**         watch 13: guard 42, after
**       below 1: string 9 of 4, string 8 of 1
**       holds 9 under string 5
**
** The object in slot 7 is the third object there (#2).  A field of object 4
** holds the object, a field of object 1 holds object 4, and object 1 is a
** root.  The host has numbered its strings.
*/
#include "engine.h"
#include "json.h"

#define put mwi_json_form

/* In a function with an engine `e`: the element of a pool. */
#define dumped(type, pool, i) \
  ((const type *)mwi_pool_at(&e->pool, i, sizeof(type)))

static void put_value(mwi_json *out, const mw_value *v) {
  static const char *const forms[] = {
      "nil", "%s", "%d", "", "string %d", "object %h", "value %d", "absent"};
  if (v->type == MW_TBOOLEAN)
    put(out, "%s", v->u.i ? "true" : "false");
  else if (v->type == MW_TFLOAT)
    mwi_json_number(out, v->u.f);
  else
    put(out, forms[v->type], v->u.i);
}

/* Puts the words of the bits that are set, each after a comma. */
static void put_words(mwi_json *out, const char *const *words, unsigned bits) {
  for (; bits != 0; bits >>= 1, words++)
    if (bits & 1) put(out, ", %s", *words);
}

static void dump_watches(mwi_json *out, const mw_engine *e, uint32_t i) {
  static const char *const words[] = {
      "once", "after", "skip", "check",     "flag",
      "weak", "deep",  "ask",  "has ended", "is about to be called"};
  const mwi_watch *w;
  for (; i != 0; i = w->next) {
    w = dumped(mwi_watch, watch.watches, i);
    put(out,
        (w->flags & MWI_OBJECT) ? "    watch %d: guard %h"
                                : "    watch %d: guard %d",
        (int64_t)w->seq, (int64_t)w->ref);
    put_words(out, words, w->flags & (2 * MWI_CLAIMED - 1));
    put(out, "\n");
  }
}

/* Shows how many fields of another node hold a node, under which key one of
** them did last. */
static void put_edge(mwi_json *out, const mwi_edge *edge) {
  put_value(out, &edge->hint);
  if (edge->count > 1) put(out, " and %u more", edge->count - 1);
}

static void dump_member(mwi_json *out, const mw_engine *e,
                        const mwi_member *m) {
  const mwi_reach *reach = dumped(mwi_reach, tree.reaches, m->reach);
  int is_root = m == reach->root;
  mw_handle top = reach->obj, parent;
  if (is_root)
    put(out, "  root");
  else
    put(out, (top == MW_NONE) ? "  below the ground" : "  below %h", top);
  if (m->via == NULL) {
    put(out, is_root ? "\n" : ": an orphan\n");
    return;
  }
  parent = m->via->parent->obj;
  if (parent != MW_NONE) { /* not from the ground? */
    put(out, ": ");
    put_edge(out, m->via);
    put(out, " of %h", parent);
  }
  put(out, "\n");
}

/* Shows the members of all nodes; and the edges of the first one, for others
** have some of these. */
static void dump_nodes(mwi_json *out, const mw_engine *e,
                       const mwi_node *first) {
  const mwi_node *n;
  const mwi_member *m;
  const mwi_edge *i;
  uint32_t number;
  for (n = first; n != NULL; n = n->next)
    for (number = n->members; number != 0; number = m->next) {
      m = dumped(mwi_member, tree.members, number);
      dump_member(out, e, m);
    }
  for (i = first->outs; i != NULL; i = i->next_out) {
    put(out, "  holds %h under ", i->child->obj);
    put_edge(out, i);
    put(out, "\n");
  }
}

static void dump_record(mwi_json *out, const mw_engine *e,
                        const mwi_object *r) {
  static const char *const words[] = {"watched", "tracked",
                                      "tracked with what is below", "invalid",
                                      "is being walked"};
  const mwi_field *f;
  uint32_t i;
  put(out, "object %h: %u writes", r->obj, r->count);
  put_words(out, words,
            (r->watched ? 1u : 0u) | (unsigned)r->tracked << 1 |
                (r->invalid ? 8u : 0u) | (r->walks > 0 ? 16u : 0u));
  put(out, "\n");
  if (r->first != 0) put(out, "  all fields\n");
  dump_watches(out, e, r->first);
  for (i = r->fields; i != 0; i = f->next) {
    f = dumped(mwi_field, watch.fields, i);
    put(out, "  field ");
    put_value(out, &f->key);
    put(out, "\n");
    dump_watches(out, e, f->first);
  }
  if (r->nodes != 0) dump_nodes(out, e, dumped(mwi_node, tree.nodes, r->nodes));
}

static void dump_clocks(mwi_json *out, const mw_engine *e) {
  uint32_t i;
  for (i = 0; i < e->clock.n; i++) {
    const mwi_clock *clock = &e->clock.clocks[i];
    put(out, "clock %u", i);
    if (i == e->identity.given) put(out, " (serials)");
    if (clock->name != NULL) put(out, " %q", clock->name, clock->len);
    put(out, ": generation %d\n", (int64_t)clock->now);
  }
}

int mw_dump(const mw_engine *e, mw_sink write, void *ud) {
  char buffer[512];
  mwi_json out = {write, ud, buffer, 0, sizeof(buffer), 0};
  const mw_trace *t;
  uint32_t i;
#ifdef MW_CHECKS
  if (e->check.broken != NULL)
    put(&out, "broken: %s (check.c:%d)\n", e->check.broken,
        (int64_t)e->check.line);
#endif
  put(&out, "%d objects\n", (int64_t)e->identity.count);
  dump_clocks(&out, e);
  if (e->watch.walks > 0) put(&out, "walks: %u\n", e->watch.walks);
  if (e->journal.open > 0)
    put(&out, "journal: %u entries of %u owners%s\n", e->journal.entries,
        e->journal.open, e->journal.mixed ? ", mixed" : "");
  if (e->reader.open > 0)
    put(&out, "readers: %u, %d entries\n", e->reader.open,
        (int64_t)(e->reader.last + 1 - e->reader.first));
  for (i = 1; i < e->identity.top; i++) {
    const mwi_object *r = mwi_object_of(&e->watch, i);
    if (r != NULL && r->obj != MW_NONE) dump_record(&out, e, r);
  }
  for (i = 0; i < e->scope.n; i++)
    if (e->scope.all[i] != NULL)
      put(&out, "hierarchy %u: %d frames\n", i,
          (int64_t)e->scope.all[i]->frames);
  for (t = e->trace.first; t != NULL; t = t->next)
    put(&out, "trace: %d events, room for %d, %d lost%s\n",
        (int64_t)mw_trace_len(t), (int64_t)t->capacity,
        (int64_t)mw_trace_lost(t), (t == e->trace.running) ? ", runs" : "");
  mwi_json_flush(&out);
  return out.failed ? MW_REFUSED : MW_OK;
}
