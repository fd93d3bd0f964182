/*
** journal.c - who owns a write, and what an owner's end gives back or delivers.
** SPDX-License-Identifier: MIT
**
** An owner has the entries of its writes.  The owners of one thread of the host
** are nested, and share a log, in which each owner has a range:
**
**     log    0 1 2 3 4 5 6 7      the entries, in the order of the program
**            ^     ^       ^
**            |     |       newest owner
**            |     owner
**            owner that began first
**
** Invariant: each range is in the order of the program; so is the whole log,
** but for entries that an owner got from a child of another thread.  As long as
** each log has later entries than the log below, restoring the old values from
** the end of the last range takes back what the last owner wrote. When a write
** breaks this order (its owner's log is not the top, or nobody owns the write),
** the journal becomes mixed, and knows of each field who has written the field:
**
**     (obj, key) --> newest stake <--> older stake <--> ...
**                    owner, entry      owner, entry
**
** Invariant of a mixed journal: the stakes of a field stand for the writes to
** the field since the last write that is final, in order; neighbours have
** different owners; the old value of a stake's first entry is what the field
** held before the owner's writes, and would hold if these had never been made.
** So an owner that takes its writes back gives the old value of its newest
** stake to the field, and the old value of any other stake to the first entry
** of the stake that is newer.  A final write settles all older stakes in its
** field: they leave the table, and leave old values to each other alone, for
** the effects that their owners make.  The journal stays mixed until there are
** no entries.
**
** An entry that nobody can take back any more is delivered to the readers, if
** there are any: at once if nobody owns the write, else when the outermost
** owner commits: see reader.c.
*/
#include <string.h>

#include "engine.h"

/* The spare log has no array larger than this. */
#ifndef MWI_JOURNAL_KEEP
#define MWI_JOURNAL_KEEP 1024u
#endif

#define stake_at(part, i) \
  ((mwi_stake *)mwi_pool_at(&(part)->stakes, i, sizeof(mwi_stake)))

const mwi_kind mwi_kinds[MW_KINDS] = {
    {"insert", MWI_OF_FIELD},   {"update", MWI_OF_FIELD},
    {"delete", MWI_OF_FIELD},   {"call", MWI_OF_STATE},
    {"raw", MWI_OF_FIELD},      {"metatable", MWI_OF_CLASS},
    {"rollback", MWI_OF_FIELD}, {"apply", MWI_OF_FIELD},
    {"touch", MWI_OF_FIELD}};

static mwi_owner *owner_at(const mw_engine *e, mw_owner owner) {
  mwi_check_call(owner > 0 && owner <= e->journal.owners.n &&
                 mwi_owner_at(&e->journal, owner)->log != NULL);
  return mwi_owner_at(&e->journal, owner);
}

/* Retains or releases a value, if that is a string: the host numbers them. */
static inline void keep_value(const mw_engine *e, int type, mw_content content,
                              mwi_keeping *how) {
  mw_value v;
  if (type != MW_TSTRING) return;
  v.type = type;
  v.u = content;
  how(e, &v);
}

void mwi_entry_keep(const mw_engine *e, const mw_entry *entry,
                    mwi_keeping *how) {
  int i;
  for (i = 0; i < MW_PARTS; i++)
    if (entry->type[i] == MW_TSTRING)
      keep_value(e, entry->type[i], entry->value[i], how);
}

/* {======================================================
** Stakes
** ======================================================= */

/* Returns the newest stake in a field, or NULL. */
static mwi_stake *find_stake(const mw_engine *e, mw_handle obj,
                             const mw_value *key) {
  const mwi_journal *part = &e->journal;
  mwi_search at;
  uint32_t i =
      mwi_table_first(&part->fields, mwi_key_hash(mw_slot(obj), key), &at);
  for (; i != 0; i = mwi_table_next(&part->fields, &at)) {
    mwi_stake *s = stake_at(part, i);
    if (s->obj == obj && mw_value_equal(&s->key, key)) return s;
  }
  return NULL;
}

/* Has nobody written the field later? */
static int is_newest(const mwi_stake *s) {
  return s->newer == NULL && !s->settled;
}

static uint32_t stake_hash(const mwi_stake *s) {
  return mwi_key_hash(mw_slot(s->obj), &s->key);
}

/* Makes room for one more stake. */
static int reserve_stake(mw_engine *e) {
  mwi_journal *part = &e->journal;
  uint32_t i;
  if (!mwi_table_reserve(e, &part->fields, 1)) return 0;
  i = mwi_pool_take(e, &part->stakes, sizeof(mwi_stake));
  if (i != 0) mwi_pool_give(&part->stakes, i, sizeof(mwi_stake));
  return i != 0;
}

/* Adds a stake to the end of its owner's list. */
static void give_stake(mwi_stake *s, mwi_owner *o) {
  s->owner = o;
  s->before = o->last;
  s->after = NULL;
  if (o->last != NULL)
    o->last->after = s;
  else
    o->first = s;
  o->last = s;
}

static void take_stake(const mwi_stake *s) {
  mwi_owner *o = s->owner;
  if (s->before != NULL)
    s->before->after = s->after;
  else
    o->first = s->after;
  if (s->after != NULL)
    s->after->before = s->before;
  else
    o->last = s->before;
}

/* Enters a write into the mixed journal.  There is room for a stake. */
static void add_stake(mw_engine *e, mwi_owner *o, const mw_entry *entry,
                      const mw_value *key) {
  mwi_journal *part = &e->journal;
  mwi_stake *newest = find_stake(e, entry->obj, key), *s;
  uint32_t i;
  if (newest != NULL && newest->owner == o) return; /* has it one already? */
  i = mwi_pool_take(e, &part->stakes, sizeof(mwi_stake));
  s = stake_at(part, i);
  memset(s, 0, sizeof(*s));
  s->number = i;
  s->obj = entry->obj;
  s->key = *key;
  s->left = entry->value[MW_OLD];
  s->seq = entry->seq;
  s->older = newest;
  keep_value(e, key->type, key->u, mwi_host_retain);
  give_stake(s, o);
  if (newest != NULL) { /* has another owner written the field? */
    mwi_table_replace(&part->fields, stake_hash(s), newest->number, i);
    newest->newer = s;
  } else {
    mwi_table_put(e, &part->fields, stake_hash(s), i);
  }
}

/* Ends a stake, with no effect on its neighbours' old values.  A settled one
** that is left alone ends, too. */
static void end_stake(mw_engine *e, mwi_stake *s) {
  mwi_journal *part = &e->journal;
  mwi_stake *other = (s->newer != NULL) ? s->newer : s->older;
  take_stake(s);
  if (is_newest(s) && s->older != NULL) /* is an older one the newest then? */
    mwi_table_replace(&part->fields, stake_hash(s), s->number,
                      s->older->number);
  else if (is_newest(s)) /* or was it the only one? */
    mwi_table_take(&part->fields, stake_hash(s), s->number);
  if (s->newer != NULL) s->newer->older = s->older;
  if (s->older != NULL) s->older->newer = s->newer;
  keep_value(e, s->key.type, s->key.u, mwi_host_release);
  s->obj = MW_NONE;
  mwi_pool_give(&part->stakes, s->number, sizeof(mwi_stake));
  if (other != NULL && s->settled && other->newer == NULL &&
      other->older == NULL) /* settled and left alone? */
    end_stake(e, other);
}

/* Ends the stakes in the objects for which `dropped` returns not 0; NULL: in
** all. */
static void end_stakes(mw_engine *e, mw_dropped dropped, void *ud) {
  uint32_t i;
  for (i = 1; i <= e->journal.stakes.n; i++) {
    mwi_stake *s = stake_at(&e->journal, i);
    if (s->obj != MW_NONE && (dropped == NULL || dropped(ud, s->obj)))
      end_stake(e, s);
  }
}

/* A write to the field that is later than the stake, and earlier than the next
** newer one, is final. */
static void settle(mw_engine *e, mwi_stake *s) {
  mwi_stake *older;
  if (s == NULL) return; /* no earlier writes to the field? */
  if (is_newest(s))      /* is the final write the last one? */
    mwi_table_take(&e->journal.fields, stake_hash(s), s->number);
  if (s->newer != NULL) s->newer->older = NULL;
  s->newer = NULL;
  for (older = s; older != NULL; older = older->older) older->settled = 1;
  if (s->older == NULL) end_stake(e, s); /* of use to no other stake? */
}

/* If the stake and the next newer one have one owner, they become one. */
static void join_newer(mw_engine *e, mwi_stake *s) {
  if (s != NULL && s->newer != NULL && s->newer->owner == s->owner)
    end_stake(e, s->newer);
}

/* Sets the kind of a plain write by its old and new value.  Returns 0 if the
** write changes nothing. */
static int set_kind(mw_entry *entry) {
  int was = entry->type[MW_OLD] != MW_TABSENT;
  int is = entry->type[MW_NOW] != MW_TABSENT;
  if (entry->kind != MW_INSERT && entry->kind != MW_UPDATE &&
      entry->kind != MW_DELETE) /* not a plain write? */
    return 1;
  entry->kind = was ? (is ? MW_UPDATE : MW_DELETE) : MW_INSERT;
  return was || is;
}

mw_entry *mwi_stake_entry(const mwi_stake *s) {
  const mwi_owner *o = s->owner;
  mw_entry *entries = o->log->entries;
  uint32_t from = o->mark, to = mwi_range_end(o);
  while (from < to) {
    uint32_t middle = from + (to - from) / 2;
    if (entries[middle].seq < s->seq)
      from = middle + 1;
    else
      to = middle;
  }
  mwi_assert(from < mwi_range_end(o) && entries[from].seq == s->seq);
  return entries + from;
}

/* The first entry of a stake gets the old value that the older stake has left
** for its owner. */
static void inherit(const mw_engine *e, const mwi_stake *s,
                    const mwi_stake *older) {
  mw_entry *entry = mwi_stake_entry(s);
  int type = mwi_stake_entry(older)->type[MW_OLD];
  keep_value(e, type, older->left, mwi_host_retain);
  keep_value(e, entry->type[MW_OLD], entry->value[MW_OLD], mwi_host_release);
  entry->type[MW_OLD] = (uint8_t)type;
  entry->value[MW_OLD] = older->left;
  set_kind(entry);
}

/* Gives the old value of a stake to the stake that is newer, if there is one,
** and ends the stake. */
static void take_back(mw_engine *e, mwi_stake *s) {
  mwi_stake *older = s->older;
  if (s->newer != NULL) { /* has another owner written later? */
    s->newer->left = s->left;
    inherit(e, s->newer, s);
  }
  end_stake(e, s);
  join_newer(e, older);
}

/* Returns the oldest stake in the field of a stake, but for those that `o` has
** already delivered; NULL gives NULL. */
static const mwi_stake *oldest_of(const mwi_stake *s, const mwi_owner *o) {
  while (s != NULL && s->older != NULL && s->older->owner != o) s = s->older;
  return s;
}

/* Returns the stake that stands for an entry of the owner; NULL if a later
** write to the field is final. */
static mwi_stake *stake_of(const mw_engine *e, const mwi_owner *o,
                           const mw_entry *entry, const mw_value *key) {
  mwi_stake *s = find_stake(e, entry->obj, key);
  while (s != NULL && (s->owner != o || s->seq > entry->seq)) s = s->older;
  return s;
}

/* Asks the host for the field of an entry. */
static int field_of_entry(mw_engine *e, mw_owner owner, const mw_entry *entry,
                          mw_value *key, void *host) {
  const mw_host *callbacks = &e->watch.host;
  if (callbacks->field != NULL) /* does the host number the keys? */
    return callbacks->field(callbacks->ud, owner, entry, key, host);
  key->type = entry->type[MW_KEY];
  key->u = entry->value[MW_KEY];
  return MW_OK;
}

int mwi_entry_counts(mw_engine *e, mw_owner owner, const mw_entry *entry,
                     void *host) {
  mw_value key;
  if (!e->journal.mixed) return 1; /* no final write since? */
  if (field_of_entry(e, owner, entry, &key, host) != MW_OK) return 1;
  return stake_of(e, owner_at(e, owner), entry, &key) != NULL;
}

static int stake_range(mw_engine *e, mwi_owner *o, void *host) {
  uint32_t i, end = mwi_range_end(o);
  for (i = o->mark; i < end; i++) {
    const mw_entry *entry = &o->log->entries[i];
    mw_value key;
    int code = field_of_entry(e, o->number, entry, &key, host);
    if (code == MW_OK && !reserve_stake(e)) code = MW_NOMEM;
    if (code != MW_OK) return code;
    add_stake(e, o, entry, &key);
  }
  return MW_OK;
}

/* Enters all entries, in their order, into the table of fields. */
static int mix(mw_engine *e, void *host) {
  mwi_journal *part = &e->journal;
  const mwi_log *log = part->top;
  mwi_owner *o;
  int code = MW_OK;
  while (log != NULL && log->below != NULL) log = log->below;
  for (; log != NULL && code == MW_OK; log = log->above) {
    for (o = log->newest; mwi_owner_below(o) != NULL;) o = o->parent;
    for (; o != NULL && code == MW_OK; o = o->above)
      code = stake_range(e, o, host);
  }
  if (code != MW_OK) { /* then the journal stays as it was */
    end_stakes(e, NULL, NULL);
    return code;
  }
  part->mixed = 1;
  part->top = NULL;
  return MW_OK;
}

/* }====================================================== */

/* {======================================================
** Owners
** ======================================================= */

/* Takes a log without entries from the logs in order. */
static void unlink_log(mw_engine *e, mwi_log *log) {
  mwi_journal *part = &e->journal;
  if (!part->mixed) { /* is there an order of logs? */
    if (log->above != NULL)
      log->above->below = log->below;
    else
      part->top = log->below;
    if (log->below != NULL) log->below->above = log->above;
  }
  log->above = log->below = NULL;
}

mwi_owner *mwi_owner_begin(mw_engine *e, mwi_owner *parent, mwi_owner *below) {
  mwi_journal *part = &e->journal;
  mw_owner owner;
  mwi_owner *o;
  mwi_log *log;
  mwi_check_enter(e);
  if (below == NULL && part->spare == NULL) /* does it need a new log? */
    part->spare = (mwi_log *)mwi_new(e, sizeof(mwi_log));
  log = (below != NULL) ? below->log : part->spare;
  if (log == NULL) return NULL;
  owner = mwi_pool_take(e, &part->owners, sizeof(mwi_owner));
  if (owner == 0) return NULL;
  o = mwi_owner_at(part, owner);
  memset(o, 0, sizeof(*o));
  o->number = owner;
  o->log = log;
  log->newest = o;
  o->mark = log->n;
  o->parent = parent;
  if (parent != NULL) parent->children++;
  if (below != NULL) /* else it has taken the spare log */
    below->above = o;
  else
    part->spare = NULL;
  part->open++;
  return o;
}

mw_owner mw_owner_begin(mw_engine *e, mw_owner parent, mw_owner below) {
  mwi_owner *its = (parent == 0) ? NULL : owner_at(e, parent);
  mwi_check_call(below == 0 || (below == parent && its->above == NULL));
  its = mwi_owner_begin(e, its, (below == 0) ? NULL : its);
  return (its == NULL) ? 0 : its->number;
}

/* The entries of the owners above have moved by `n`. */
static void move_above(const mwi_owner *o, uint32_t n) {
  mwi_owner *above;
  for (above = o->above; above != NULL; above = above->above) above->mark += n;
}

/* Takes the entries of the owner from its log; `gone`: and they are gone. */
static void remove_range(mw_engine *e, const mwi_owner *o, int gone) {
  mwi_log *log = o->log;
  uint32_t end = mwi_range_end(o), n = end - o->mark, i;
  if (n == 0) return;
  for (i = o->mark; gone && i < end; i++)
    mwi_entry_keep(e, &log->entries[i], mwi_host_release);
  memmove(log->entries + o->mark, log->entries + end,
          (log->n - end) * sizeof(mw_entry));
  log->n -= n;
  e->journal.entries -= n;
  move_above(o, 0 - n);
  if (log->n == 0) unlink_log(e, log); /* logs in order have entries */
}

/* Calls `f` with the blocks of a log. */
static void log_blocks(mw_engine *e, mwi_log *log, mwi_visit f) {
  f(e, log->entries, log->size * sizeof(mw_entry));
  f(e, log, sizeof(*log));
}

/* Ends an owner without stakes, whose entries belong to the owner below or are
** gone. */
static void end_owner(mw_engine *e, mwi_owner *o) {
  mwi_journal *part = &e->journal;
  mwi_owner *below = mwi_owner_below(o), *parent = o->parent;
  mwi_log *log = o->log;
  mw_owner i;
  mwi_assert(o->first == NULL);
  if (parent != NULL) parent->children += o->children - 1;
  for (i = 1; o->children > 0; i++) {
    mwi_owner *child = mwi_owner_at(part, i);
    if (child->log == NULL || child->parent != o) continue; /* another's? */
    child->parent = parent;
    o->children--;
  }
  if (below != NULL) below->above = o->above;
  if (o->above == NULL) log->newest = below;
  if (log->newest == NULL) {            /* was it the last owner of the log? */
    if (log->size > MWI_JOURNAL_KEEP) { /* too large to keep? */
      mwi_free(e, log->entries, log->size * sizeof(mw_entry));
      log->entries = NULL;
      log->size = 0;
    }
    if (part->spare != NULL) log_blocks(e, part->spare, mwi_free);
    part->spare = log;
  }
  o->log = NULL;
  mwi_pool_give(&part->owners, o->number, sizeof(mwi_owner));
  part->open--;
  if (part->mixed && part->entries == 0) { /* nothing left to take back? */
    mwi_assert(part->fields.size == 0);
    part->mixed = 0;
  }
}

mw_owner mw_owner_parent(const mw_engine *e, mw_owner owner) {
  const mwi_owner *parent = owner_at(e, owner)->parent;
  return (parent == NULL) ? 0 : parent->number;
}

const mw_entry *mw_owner_entries(const mw_engine *e, mw_owner owner,
                                 size_t *n) {
  const mwi_owner *o = owner_at(e, owner);
  *n = mwi_range_end(o) - o->mark;
  return (*n == 0) ? NULL : o->log->entries + o->mark;
}

/* Delivers an entry of an owner, or of nobody (NULL).  The old value is what
** was delivered last of the field: that of the oldest stake, if there is a
** stake.  Returns 0 if there is nothing to deliver. */
static int deliver_entry(mw_engine *e, const mwi_owner *o,
                         const mw_entry *entry, const mwi_stake *oldest,
                         int begins, void *host) {
  mw_entry its = *entry;
  mw_values values;
  if (!mwi_is_read(&e->reader)) return 0;
  values.owner = values.old_owner = (o == NULL) ? 0 : o->number;
  if (oldest != NULL) { /* does a stake know what was delivered last? */
    const mw_entry *first = mwi_stake_entry(oldest);
    its.type[MW_OLD] = first->type[MW_OLD];
    its.value[MW_OLD] = first->value[MW_OLD];
    values.old_owner = oldest->owner->number;
  }
  if (!set_kind(&its)) return 0; /* absent before and after? */
  mwi_reader_deliver(e, &its, &values, begins, host);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Writes
** ======================================================= */

/* Makes room for `n` more entries. */
static int reserve_entries(mw_engine *e, mwi_log *log, uint32_t n) {
  while (log->size - log->n < n) {
    if (log->size >= UINT32_MAX / 4) return 0; /* would numbers run out? */
    if (!mwi_grow(e, &log->entries, log->size, &log->size)) return 0;
  }
  return 1;
}

/* Merges `n` entries, which are in order, into the entries from `first` to
** `from`, which are in order too, by sequence number.  There is room above. */
static void merge(mw_entry *entries, uint32_t first, uint32_t from,
                  const mw_entry *others, uint32_t n) {
  uint32_t to = from + n;
  while (n > 0) {
    if (from > first && entries[from - 1].seq > others[n - 1].seq) /* later? */
      entries[--to] = entries[--from];
    else
      entries[--to] = others[--n];
  }
}

/* Adds entries to the range of an owner.  There is room. */
static void add_entries(mw_engine *e, const mwi_owner *o,
                        const mw_entry *others, uint32_t n) {
  mwi_log *log = o->log;
  uint32_t end = mwi_range_end(o);
  memmove(log->entries + end + n, log->entries + end,
          (log->n - end) * sizeof(mw_entry));
  move_above(o, n);
  log->n += n;
  e->journal.entries += n;
  merge(log->entries, o->mark, end, others, n);
}

/* May an entry of the owner (NULL: a final write) come now in a journal that is
** not mixed? */
static int is_in_order(const mw_engine *e, const mwi_owner *o) {
  if (o == NULL) return e->journal.entries == 0;
  return o->log->n == 0 || /* or does it come last of all? */
         (o->log == e->journal.top && mwi_range_end(o) == o->log->n);
}

/* Makes room for one more entry of the owner, or of nobody (NULL). */
static int reserve(mw_engine *e, const mwi_owner *o, void *host) {
  if (!e->journal.mixed && !is_in_order(e, o)) { /* do writers take turns? */
    int code = mix(e, host);
    if (code != MW_OK) return code;
  }
  if (o == NULL) return MW_OK; /* a final write has no entry */
  if (e->journal.mixed && !reserve_stake(e)) return MW_NOMEM;
  return reserve_entries(e, o->log, 1) ? MW_OK : MW_NOMEM;
}

int mw_journal_reserve(mw_engine *e, mw_owner owner, void *host) {
  mwi_check_enter(e);
  return reserve(e, (owner == 0) ? NULL : owner_at(e, owner), host);
}

int mw_journal_is_mixed(const mw_engine *e) { return e->journal.mixed; }

uint64_t mw_change_number(mw_engine *e, mw_change *change) {
  if (change->number == 0) change->number = ++e->journal.seq;
  return change->number;
}

uint32_t mw_cause_now(mw_engine *e) {
  mw_change *change = e->watch.cause;
  return (change == NULL) ? 0 : (uint32_t)mw_change_number(e, change);
}

uint32_t mw_entry_number(const mw_entry *entry) {
  return mwi_number_of(entry->seq);
}

int mw_journal_append(mw_engine *e, mw_owner owner, const mw_entry *entry,
                      const mw_value *field, void *host) {
  mwi_journal *part = &e->journal;
  mwi_owner *o = (owner == 0) ? NULL : owner_at(e, owner);
  mw_entry its = *entry;
  mw_value key;
  int code;
  mwi_check_enter(e);
  mwi_check_call(e->check.restoring == 0);
  code = reserve(e, o, host);
  if (code == MW_OK && part->mixed) { /* does it matter which field it is? */
    if (field != NULL)                /* does the caller know it? */
      key = *field;
    else
      code = field_of_entry(e, owner, entry, &key, host);
  }
  if (code != MW_OK) return code;
  if (its.cause == 0) its.cause = mw_cause_now(e); /* none from the host? */
  its.seq = mwi_journal_stamp(part, entry->seq);
  if (o != NULL) { /* can somebody take the write back? */
    mwi_log *log = o->log;
    mwi_entry_keep(e, entry, mwi_host_retain);
    if (log->n == 0 && !part->mixed) { /* does the log become the top? */
      log->below = part->top;
      if (part->top != NULL) part->top->above = log;
      part->top = log;
    }
    add_entries(e, o, &its, 1);
    if (part->mixed) add_stake(e, o, &its, &key);
  } else { /* the write is final */
    mwi_stake *s = part->mixed ? find_stake(e, entry->obj, &key) : NULL;
    deliver_entry(e, NULL, &its, oldest_of(s, NULL), 1, host);
    settle(e, s);
  }
  return MW_OK;
}

/* }====================================================== */

/* {======================================================
** The end of an owner
** ======================================================= */

/* The host gets a copy, for the entries may move meanwhile. */
static void restore(const mw_engine *e, mw_entry entry, void *host) {
  const mw_host *callbacks = &e->watch.host;
  if (mwi_identity_is_valid(&e->identity, entry.obj)) /* does it live still? */
    callbacks->restore(callbacks->ud, &entry, host);
}

int mw_owner_is_last(const mw_engine *e, mw_owner owner, mw_handle obj,
                     const mw_value *field) {
  const mwi_stake *s = find_stake(e, obj, field);
  return s != NULL && s->owner->number == owner;
}

/* Changes an entry of one owner into one of another. */
static int hand(mw_engine *e, const mwi_owner *o, const mwi_owner *to,
                mw_entry *entry, void *host) {
  const mw_host *callbacks = &e->watch.host;
  if (callbacks->hand == NULL) return MW_OK; /* do values belong to no owner? */
  return callbacks->hand(callbacks->ud, o->number, to->number, entry, host);
}

/* Makes ready what other owners inherit when the owner ends. */
static int bequeath(mw_engine *e, const mwi_owner *o, void *host) {
  mwi_stake *s;
  for (s = o->last; s != NULL; s = s->before) {
    const mw_entry *first;
    mw_entry its;
    int code;
    if (s->newer == NULL) continue; /* no heir? */
    first = mwi_stake_entry(s);
    memset(&its, 0, sizeof(its));
    its.obj = s->obj;
    its.kind = first->kind;
    its.type[MW_KEY] = its.type[MW_NOW] = MW_TABSENT;
    its.type[MW_OLD] = first->type[MW_OLD];
    its.value[MW_OLD] = first->value[MW_OLD];
    code = hand(e, o, s->newer->owner, &its, host);
    if (code != MW_OK) return code;
    s->left = its.value[MW_OLD];
  }
  return MW_OK;
}

int mw_owner_rewind(mw_engine *e, mw_owner owner, void *host) {
  const mwi_owner *o = owner_at(e, owner);
  const mwi_stake *s;
  uint32_t i;
  int code = MW_OK;
  mwi_check_enter(e);
  mwi_check_call(e->watch.host.restore != NULL);
  if (mwi_range_end(o) == o->mark) return MW_OK; /* has it written nothing? */
  if (!e->journal.mixed && !is_in_order(e, o)) code = mix(e, host);
  if (code == MW_OK && e->journal.mixed) code = bequeath(e, o, host);
  if (code != MW_OK) return code;
  mwi_restoring_begin(e);
  if (!e->journal.mixed) /* are its writes the last of all? */
    for (i = mwi_range_end(o); i > o->mark; i--)
      restore(e, o->log->entries[i - 1], host);
  else
    for (s = o->last; s != NULL; s = s->before)
      if (is_newest(s)) /* else somebody else has written the field */
        restore(e, *mwi_stake_entry(s), host);
  mwi_restoring_end(e);
  return MW_OK;
}

void mw_owner_forget(mw_engine *e, mw_owner owner) {
  mwi_owner *o = owner_at(e, owner);
  mwi_check_enter(e);
  while (o->last != NULL) take_back(e, o->last);
  remove_range(e, o, 1);
  end_owner(e, o);
}

/* Are entries of the owner earlier than entries of the parent, in one log? */
static int is_mingled(const mwi_owner *o) {
  const mw_entry *entries = o->log->entries;
  return mwi_range_end(o) > o->mark && o->mark > o->parent->mark &&
         entries[o->mark - 1].seq > entries[o->mark].seq;
}

/* Moves the entries of an owner to the range of the parent, in whatever log.  A
** copy of them, with the values as the parent has them, stands meanwhile so far
** behind the log that the log can become longer by them. */
static int hand_entries(mw_engine *e, const mwi_owner *o, void *host) {
  mwi_journal *part = &e->journal;
  const mwi_owner *parent = o->parent;
  uint32_t n = mwi_range_end(o) - o->mark, i;
  mwi_log *log = o->log, *to = parent->log;
  int follows =
      log == part->top && /* right behind the parent's? */
      (to->n == 0 || (log->below == to && mwi_range_end(parent) == to->n));
  int code = (part->mixed || follows || n == 0) ? MW_OK : mix(e, host);
  mw_entry *copy;
  if (code != MW_OK) return code;
  if (!reserve_entries(e, to, n) || !reserve_entries(e, log, 2 * n))
    return MW_NOMEM;
  copy = log->entries + log->n + n;
  for (i = 0; i < n && code == MW_OK; i++) {
    copy[i] = log->entries[o->mark + i];
    code = hand(e, o, parent, &copy[i], host);
  }
  if (code != MW_OK || n == 0) return code; /* or is there nothing to hand? */
  if (!part->mixed && to->n == 0) { /* `to` comes directly below `log` */
    to->below = log->below;
    to->above = log;
    if (to->below != NULL) to->below->above = to;
    log->below = to;
  }
  add_entries(e, parent, copy, n);
  remove_range(e, o, 0);
  return MW_OK;
}

/* Delivers the entries of the owner that count: in a mixed journal, the others
** have been followed by a final write to their field.  What is delivered of a
** field is final itself. */
static void deliver_range(mw_engine *e, const mwi_owner *o, void *host) {
  uint32_t i, end = mwi_range_end(o);
  int begins = 1;
  for (i = o->mark; i < end; i++) {
    const mw_entry *entry = &o->log->entries[i];
    const mwi_stake *its = NULL, *oldest = NULL;
    if (e->journal.mixed) { /* may some not count? */
      mw_value key;
      if (field_of_entry(e, o->number, entry, &key, host) != MW_OK) {
        mwi_reader_lose(e);
        continue;
      }
      its = stake_of(e, o, entry, &key);
      if (its == NULL) continue; /* has a final write followed? */
      if (its->seq == entry->seq) oldest = oldest_of(its, o); /* its first? */
    }
    begins &= !deliver_entry(e, o, entry, oldest, begins, host);
    if (its != NULL) settle(e, its->older);
  }
}

/* No owner can take the entries of the first owner of a log back. */
static int make_final(mw_engine *e, mwi_owner *o, void *host) {
  if (!e->journal.mixed && o->log->below != NULL) { /* do earlier ones wait? */
    int code = mix(e, host);
    if (code != MW_OK) return code;
  }
  if (mwi_is_read(&e->reader)) deliver_range(e, o, host);
  while (o->first != NULL) {
    settle(e, o->first->older);
    end_stake(e, o->first);
  }
  remove_range(e, o, 1);
  return MW_OK;
}

/* A range becomes part of the one below when its owner ends.  So entries move
** only if the parent has another log, or they are mingled with its own. */
int mwi_owner_commit(mw_engine *e, mwi_owner *o, void *host) {
  mwi_stake *s;
  int code = MW_OK;
  mwi_check_enter(e);
  if (o->parent == NULL) /* can nobody take them back any more? */
    code = make_final(e, o, host);
  else if (o->parent->log != o->log || is_mingled(o)) /* do entries move? */
    code = hand_entries(e, o, host);
  if (code != MW_OK) return code;
  while ((s = o->first) != NULL) { /* the stakes become the parent's, too */
    mwi_stake *older = s->older;
    take_stake(s);
    give_stake(s, o->parent);
    join_newer(e, s);
    join_newer(e, older);
  }
  end_owner(e, o);
  return MW_OK;
}

int mw_owner_commit(mw_engine *e, mw_owner owner, void *host) {
  return mwi_owner_commit(e, owner_at(e, owner), host);
}

/* Removes the entries of dropped objects from the log of `o`, the first of the
** log. */
static void drop_entries(mw_engine *e, mwi_owner *o, mw_dropped dropped,
                         void *ud) {
  mwi_log *log = o->log;
  uint32_t n = 0;
  for (; o != NULL; o = o->above) {
    uint32_t i = o->mark, end = mwi_range_end(o);
    o->mark = n;
    for (; i < end; i++) {
      if (dropped(ud, log->entries[i].obj))
        mwi_entry_keep(e, &log->entries[i], mwi_host_release);
      else
        log->entries[n++] = log->entries[i];
    }
  }
  e->journal.entries -= log->n - n;
  log->n = n;
  if (n == 0) unlink_log(e, log);
}

void mw_journal_drop(mw_engine *e, mw_dropped dropped, void *ud) {
  mwi_journal *part = &e->journal;
  uint32_t i;
  mwi_check_enter(e);
  if (part->entries == 0) return;
  for (i = 1; i <= part->owners.n; i++) {
    mwi_owner *o = mwi_owner_at(part, i);
    if (o->log != NULL && mwi_owner_below(o) == NULL && o->log->n > 0)
      drop_entries(e, o, dropped, ud);
  }
  end_stakes(e, dropped, ud);
  if (part->entries == 0) part->mixed = 0;
}

/* Goes on to the next field of a mixed journal. */
static int next_oldest(const mw_engine *e, mwi_undone *walk) {
  while (++walk->at <= e->journal.stakes.n) {
    const mwi_stake *s = stake_at(&e->journal, walk->at);
    if (s->obj == MW_NONE || s->older != NULL || s->settled) continue;
    walk->entry = *mwi_stake_entry(s);
    walk->owner = s->owner->number;
    return 1;
  }
  return 0;
}

/* Goes down the logs; each log in order has entries. */
int mwi_journal_undone(const mw_engine *e, mwi_undone *walk) {
  if (e->journal.mixed) return next_oldest(e, walk);
  if (walk->at == 0) { /* is the log done, if there was one? */
    walk->log = (walk->log == NULL) ? e->journal.top : walk->log->below;
    if (walk->log == NULL) return 0; /* no earlier one? */
    walk->at = walk->log->n;
    walk->its = walk->log->newest;
  }
  walk->entry = walk->log->entries[--walk->at];
  while (walk->its->mark > walk->at) walk->its = walk->its->parent;
  walk->owner = walk->its->number;
  return 1;
}

/* }====================================================== */

/* {======================================================
** Tracked objects
** ======================================================= */

int mw_object_track(mw_engine *e, mw_handle obj, int below, mw_reach *reach) {
  mwi_object *r;
  int code = MW_OK;
  if (!mwi_identity_is_valid(&e->identity, obj)) return MW_STALE;
  r = mwi_object_need(e, obj);
  if (r == NULL) return MW_NOMEM;
  if (below) code = mw_root_begin_silent(e, obj, reach);
  if (code < 0) return code;
  if (r->tracked < 2) r->tracked = below ? 2 : 1; /* not deep yet? */
  return code;
}

/* Ends the silent root as well; a deep watch of `obj` keeps its own root. */
int mw_object_untrack(mw_engine *e, mw_handle obj) {
  mwi_object *r;
  int below;
  if (!mw_object_is_tracked(e, obj)) return MW_STALE;
  r = mwi_object_of(&e->watch, mw_slot(obj));
  below = r->tracked == 2;
  r->tracked = 0;
  if (below) mw_root_end_silent(e, obj);
  mwi_tree_end_roots(e, obj, 1, NULL);
  return MW_OK;
}

int mw_object_is_tracked(const mw_engine *e, mw_handle obj) {
  const mwi_object *r;
  if (!mwi_identity_is_valid(&e->identity, obj)) return 0;
  r = mwi_object_of(&e->watch, mw_slot(obj));
  return r != NULL && r->tracked;
}

/* }====================================================== */

void mwi_journal_blocks(mw_engine *e, mwi_visit f) {
  const mwi_journal *part = &e->journal;
  uint32_t i;
  if (part->spare != NULL) log_blocks(e, part->spare, f);
  for (i = 1; i <= part->owners.n; i++) {
    const mwi_owner *o = mwi_owner_at(part, i);
    if (o->log != NULL && mwi_owner_below(o) == NULL) log_blocks(e, o->log, f);
  }
  mwi_pool_blocks(e, &part->owners, sizeof(mwi_owner), f);
  mwi_pool_blocks(e, &part->stakes, sizeof(mwi_stake), f);
  mwi_table_blocks(e, &part->fields, f);
}
