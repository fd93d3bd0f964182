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

static void put_object(mwi_json *out, mw_handle h) {
  uint32_t age = (uint32_t)(h >> 32);
  if (h == MW_NONE)
    put(out, "none");
  else
    put(out, (age == 0) ? "%u" : "%u#%u", mw_slot(h), age);
}

static void put_value(mwi_json *out, const mw_value *v) {
  static const char *const forms[] = {
      "nil", "%s", "%d", "", "string %d", "object ", "value %d", "absent"};
  if (v->type == MW_TBOOLEAN)
    put(out, "%s", v->u.i ? "true" : "false");
  else if (v->type == MW_TFLOAT)
    mwi_json_number(out, v->u.f);
  else
    put(out, forms[v->type], v->u.i);
  if (v->type == MW_TOBJECT) put_object(out, (mw_handle)v->u.i);
}

typedef struct named_bit {
  unsigned bit;
  const char *text;
} named_bit;

/* Puts the words of the bits that are set, each after a comma. */
static void put_words(mwi_json *out, const named_bit *words, unsigned bits) {
  for (; words->text != NULL; words++)
    if (bits & words->bit) put(out, ", %s", words->text);
}

/* {======================================================
** Objects
** ======================================================= */

static void dump_watches(mwi_json *out, const mw_engine *e, uint32_t i) {
  static const named_bit words[] = {{MW_ONCE, "once"},
                                    {MW_AFTER, "after"},
                                    {MW_SKIP, "skip"},
                                    {MW_FLAG, "flag"},
                                    {MW_CHECK, "check"},
                                    {MW_ASK, "ask"},
                                    {MW_WEAK, "weak"},
                                    {MW_DEEP, "deep"},
                                    {MWI_ENDED, "has ended"},
                                    {MWI_CLAIMED, "is about to be called"},
                                    {0, NULL}};
  const mwi_watch *w;
  for (; i != 0; i = w->next) {
    w = (const mwi_watch *)mwi_pool_at(&e->watch.watches, i, sizeof(*w));
    put(out, "    watch %d: guard ", (int64_t)w->seq);
    if (w->flags & MWI_OBJECT)
      put_object(out, w->ref);
    else
      put(out, "%d", (int64_t)w->ref);
    put_words(out, words, w->flags);
    put(out, "\n");
  }
}

static const mwi_member *member_of(const mw_engine *e, uint32_t m) {
  return (const mwi_member *)mwi_pool_at(&e->tree.members, m,
                                         sizeof(mwi_member));
}

static const mwi_node *node_at_number(const mw_engine *e, uint32_t n) {
  return (const mwi_node *)mwi_pool_at(&e->tree.nodes, n, sizeof(mwi_node));
}

static const mwi_edge *edge_of(const mw_engine *e, uint32_t i) {
  return (const mwi_edge *)mwi_pool_at(&e->tree.edges, i, sizeof(mwi_edge));
}

/* Returns the root of a member's reach, 0 if that has ended. */
static uint32_t root_of(const mw_engine *e, uint32_t m) {
  const mwi_reach *reach = (const mwi_reach *)mwi_pool_at(
      &e->tree.reaches, member_of(e, m)->reach, sizeof(mwi_reach));
  return reach->root;
}

static void put_node(mwi_json *out, const mw_engine *e, uint32_t n) {
  if (node_at_number(e, n)->obj == MW_NONE)
    put(out, "the ground");
  else
    put_object(out, node_at_number(e, n)->obj);
}

/* Shows how many fields of another node hold a node, under which key one of
** them did last. */
static void put_edge(mwi_json *out, const mw_engine *e, uint32_t i) {
  const mwi_edge *its = edge_of(e, i);
  put_value(out, &its->hint);
  if (its->count > 1) put(out, " and %u more", its->count - 1);
}

static void dump_member(mwi_json *out, const mw_engine *e, uint32_t m) {
  uint32_t root = root_of(e, m), via = member_of(e, m)->via;
  if (m == root) {
    put(out, "  root\n");
    return;
  }
  put(out, "  below ");
  if (root != 0) put_node(out, e, member_of(e, root)->node);
  if (via == 0) {
    put(out, ": an orphan\n");
    return;
  }
  if (node_at_number(e, edge_of(e, via)->parent)->obj != MW_NONE) {
    put(out, ": ");
    put_edge(out, e, via);
    put(out, " of ");
    put_node(out, e, edge_of(e, via)->parent);
  }
  put(out, "\n");
}

static void dump_edges(mwi_json *out, const mw_engine *e, uint32_t m) {
  uint32_t i = (m == 0) ? 0 : node_at_number(e, member_of(e, m)->node)->outs;
  for (; i != 0; i = edge_of(e, i)->next_out) {
    put(out, "  holds ");
    put_object(out, node_at_number(e, edge_of(e, i)->child)->obj);
    put(out, " under ");
    put_edge(out, e, i);
    put(out, "\n");
  }
}

static void dump_record(mwi_json *out, const mw_engine *e,
                        const mwi_object *r) {
  static const named_bit words[] = {{1, "watched"},
                                    {2, "tracked"},
                                    {4, "tracked with what is below"},
                                    {8, "invalid"},
                                    {16, "is being walked"},
                                    {0, NULL}};
  uint32_t i;
  put(out, "object ");
  put_object(out, r->obj);
  put(out, ": %u writes", r->count);
  put_words(out, words,
            (r->watched ? 1u : 0u) | (unsigned)r->tracked << 1 |
                (r->invalid ? 8u : 0u) | (r->walks > 0 ? 16u : 0u));
  put(out, "\n");
  if (r->first != 0) put(out, "  all fields\n");
  dump_watches(out, e, r->first);
  for (i = r->fields; i != 0;) {
    const mwi_field *f =
        (const mwi_field *)mwi_pool_at(&e->watch.fields, i, sizeof(mwi_field));
    put(out, "  field ");
    put_value(out, &f->key);
    put(out, "\n");
    dump_watches(out, e, f->first);
    i = f->next;
  }
  for (i = r->nodes; i != 0; i = member_of(e, i)->next) dump_member(out, e, i);
  dump_edges(out, e, r->nodes); /* other nodes have some of these */
}

static void dump_records(mwi_json *out, const mw_engine *e) {
  uint32_t slot;
  for (slot = 1; slot < e->identity.top; slot++) {
    const mwi_object *r = mwi_object_of(&e->watch, slot);
    if (r != NULL && r->obj != MW_NONE) dump_record(out, e, r);
  }
}

/* }====================================================== */

/* {======================================================
** All else
** ======================================================= */

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

static void dump_hierarchy(mwi_json *out, const mwi_hierarchy *h) {
  const mwi_stack *stack;
  uint32_t slot = 0, i;
  while ((stack = mwi_hierarchy_next(h, &slot)) != NULL) {
    if (stack->n == 0) continue;
    put(out, "  thread ");
    put_object(out, stack->thread);
    put(out, " executes");
    for (i = 0; i < stack->n; i++) {
      put(out, " ");
      put_object(out, stack->frames[i].obj);
      put(out, " as %u", stack->frames[i].name);
    }
    put(out, "\n");
  }
}

static void dump_hierarchies(mwi_json *out, const mw_engine *e) {
  uint32_t i;
  for (i = 0; i < e->scope.n; i++) {
    if (e->scope.all[i] == NULL) continue;
    put(out, "hierarchy %u: %d frames\n", i, (int64_t)e->scope.all[i]->frames);
    dump_hierarchy(out, e->scope.all[i]);
  }
}

static void dump_traces(mwi_json *out, const mw_engine *e) {
  const mw_trace *t;
  for (t = e->trace.first; t != NULL; t = t->next)
    put(out, "trace: %d events, room for %d, %d lost%s\n",
        (int64_t)mw_trace_len(t), (int64_t)t->capacity,
        (int64_t)mw_trace_lost(t), (t == e->trace.running) ? ", runs" : "");
}

int mw_dump(const mw_engine *e, mw_sink write, void *ud) {
  char buffer[512];
  mwi_json out = {write, ud, buffer, 0, sizeof(buffer), 0};
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
  dump_records(&out, e);
  dump_hierarchies(&out, e);
  dump_traces(&out, e);
  mwi_json_flush(&out);
  return out.failed ? MW_REFUSED : MW_OK;
}

/* }====================================================== */
