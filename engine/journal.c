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

/* A log that gets empty frees an array larger than this. */
#ifndef MWI_JOURNAL_KEEP
#define MWI_JOURNAL_KEEP 1024u
#endif

const mwi_kind mwi_kinds[MW_KINDS] = {
    {"insert", MWI_OF_FIELD},   {"update", MWI_OF_FIELD},
    {"delete", MWI_OF_FIELD},   {"call", MWI_OF_STATE},
    {"raw", MWI_OF_FIELD},      {"metatable", MWI_OF_CLASS},
    {"rollback", MWI_OF_FIELD}, {"apply", MWI_OF_FIELD},
    {"touch", MWI_OF_FIELD}};

static mwi_owner *owner_at(const mw_engine *e, mw_owner owner) {
  mwi_check_call(owner > 0 && owner <= e->journal.n_owners &&
                 e->journal.owners[owner].log != 0);
  return &e->journal.owners[owner];
}

static mwi_log *log_at(const mw_engine *e, uint32_t log) {
  return &e->journal.logs[log];
}

static mwi_stake *stake_at(const mw_engine *e, uint32_t i) {
  return mwi_stake_at(&e->journal, i);
}

/* Returns the number after the owner's last entry. */
static uint32_t range_end(const mw_engine *e, const mwi_owner *o) {
  return (o->above != 0) ? e->journal.owners[o->above].mark
                         : log_at(e, o->log)->n;
}

/* Retains or releases a value, if that is a string: the host numbers them. */
typedef void keeping(const mw_engine *e, const mw_value *value);

static void keep_value(const mw_engine *e, int type, mw_content content,
                       keeping *how) {
  mw_value v;
  if (type != MW_TSTRING) return;
  v.type = type;
  v.u = content;
  how(e, &v);
}

static void keep_entry(const mw_engine *e, const mw_entry *entry,
                       keeping *how) {
  int i;
  for (i = 0; i < MW_PARTS; i++)
    keep_value(e, entry->type[i], entry->value[i], how);
}

/* {======================================================
** Stakes
** ======================================================= */

/* Returns the newest stake in a field, or 0. */
static uint32_t find_stake(const mw_engine *e, mw_handle obj,
                           const mw_value *key) {
  const mwi_table *fields = &e->journal.fields;
  mwi_search at;
  uint32_t i = mwi_table_first(fields, mwi_key_hash(mw_slot(obj), key), &at);
  for (; i != 0; i = mwi_table_next(fields, &at)) {
    const mwi_stake *s = stake_at(e, i);
    if (s->obj == obj && mw_value_equal(&s->key, key)) break;
  }
  return i;
}

/* Has nobody written the field later? */
static int is_newest(const mwi_stake *s) {
  return s->newer == 0 && !s->settled;
}

static uint32_t stake_hash(const mwi_stake *s) {
  return mwi_key_hash(mw_slot(s->obj), &s->key);
}

static void leave_table(mw_engine *e, uint32_t i) {
  mwi_table_take(&e->journal.fields, stake_hash(stake_at(e, i)), i);
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
static void give_stake(mw_engine *e, uint32_t i, mw_owner owner) {
  mwi_owner *o = owner_at(e, owner);
  mwi_stake *s = stake_at(e, i);
  s->owner = owner;
  s->before = o->last;
  s->after = 0;
  if (o->last != 0)
    stake_at(e, o->last)->after = i;
  else
    o->first = i;
  o->last = i;
}

static void take_stake(mw_engine *e, uint32_t i) {
  const mwi_stake *s = stake_at(e, i);
  mwi_owner *o = owner_at(e, s->owner);
  if (s->before != 0)
    stake_at(e, s->before)->after = s->after;
  else
    o->first = s->after;
  if (s->after != 0)
    stake_at(e, s->after)->before = s->before;
  else
    o->last = s->before;
}

/* Enters a write into the mixed journal.  There is room for a stake. */
static void add_stake(mw_engine *e, mw_owner owner, const mw_entry *entry,
                      const mw_value *key) {
  mwi_journal *part = &e->journal;
  uint32_t newest = find_stake(e, entry->obj, key), i;
  mwi_stake *s;
  if (newest != 0 && stake_at(e, newest)->owner == owner) return;
  i = mwi_pool_take(e, &part->stakes, sizeof(mwi_stake));
  s = stake_at(e, i);
  memset(s, 0, sizeof(*s));
  s->obj = entry->obj;
  s->key = *key;
  s->left = entry->value[MW_OLD];
  s->seq = entry->seq;
  keep_value(e, key->type, key->u, mwi_host_retain);
  give_stake(e, i, owner);
  if (newest != 0) {
    mwi_table_replace(&part->fields, stake_hash(s), newest, i);
    stake_at(e, newest)->newer = i;
    s->older = newest;
  } else {
    mwi_table_put(e, &part->fields, stake_hash(s), i);
  }
}

/* Ends a stake, with no effect on its neighbours' old values.  A settled one
** that is left alone ends, too. */
static void end_stake(mw_engine *e, uint32_t i) {
  mwi_journal *part = &e->journal;
  mwi_stake *s = stake_at(e, i);
  uint32_t other = (s->newer != 0) ? s->newer : s->older;
  take_stake(e, i);
  if (is_newest(s) && s->older != 0)
    mwi_table_replace(&part->fields, stake_hash(s), i, s->older);
  else if (is_newest(s))
    leave_table(e, i);
  if (s->newer != 0) stake_at(e, s->newer)->older = s->older;
  if (s->older != 0) stake_at(e, s->older)->newer = s->newer;
  keep_value(e, s->key.type, s->key.u, mwi_host_release);
  s->obj = MW_NONE;
  mwi_pool_give(&part->stakes, i, sizeof(mwi_stake));
  if (other == 0 || !s->settled) return;
  s = stake_at(e, other);
  if (s->newer == 0 && s->older == 0) end_stake(e, other);
}

/* A write to the field that is later than the stake, and earlier than the next
** newer one, is final. */
static void settle(mw_engine *e, uint32_t i) {
  uint32_t older = i;
  mwi_stake *s;
  if (i == 0) return;
  s = stake_at(e, i);
  if (is_newest(s)) leave_table(e, i);
  if (s->newer != 0) stake_at(e, s->newer)->older = 0;
  s->newer = 0;
  for (; older != 0; older = stake_at(e, older)->older)
    stake_at(e, older)->settled = 1;
  if (s->older == 0) end_stake(e, i);
}

/* If the neighbours `i` and the next newer stake have one owner, they become
** one. */
static void join_newer(mw_engine *e, uint32_t i) {
  uint32_t newer = (i == 0) ? 0 : stake_at(e, i)->newer;
  if (newer != 0 && stake_at(e, newer)->owner == stake_at(e, i)->owner)
    end_stake(e, newer);
}

/* Sets the kind of a plain write by its old and new value.  Returns 0 if the
** write changes nothing. */
static int set_kind(mw_entry *entry) {
  int was = entry->type[MW_OLD] != MW_TABSENT;
  int is = entry->type[MW_NOW] != MW_TABSENT;
  if (entry->kind != MW_INSERT && entry->kind != MW_UPDATE &&
      entry->kind != MW_DELETE)
    return 1;
  entry->kind = was ? (is ? MW_UPDATE : MW_DELETE) : MW_INSERT;
  return was || is;
}

mw_entry *mwi_stake_entry(const mw_engine *e, const mwi_stake *s) {
  const mwi_owner *o = owner_at(e, s->owner);
  mw_entry *entries = log_at(e, o->log)->entries;
  uint32_t from = o->mark, to = range_end(e, o);
  while (from < to) {
    uint32_t middle = from + (to - from) / 2;
    if (entries[middle].seq < s->seq)
      from = middle + 1;
    else
      to = middle;
  }
  mwi_assert(from < range_end(e, o) && entries[from].seq == s->seq);
  return entries + from;
}

/* The first entry of a stake gets the old value that the older stake has left
** for its owner. */
static void inherit(const mw_engine *e, const mwi_stake *s,
                    const mwi_stake *older) {
  mw_entry *entry = mwi_stake_entry(e, s);
  int type = mwi_stake_entry(e, older)->type[MW_OLD];
  keep_value(e, type, older->left, mwi_host_retain);
  keep_value(e, entry->type[MW_OLD], entry->value[MW_OLD], mwi_host_release);
  entry->type[MW_OLD] = (uint8_t)type;
  entry->value[MW_OLD] = older->left;
  set_kind(entry);
}

/* Gives the old value of a stake to the stake that is newer, if there is one,
** and ends the stake. */
static void take_back(mw_engine *e, uint32_t i) {
  const mwi_stake *s = stake_at(e, i);
  uint32_t older = s->older;
  if (s->newer != 0) {
    mwi_stake *newer = stake_at(e, s->newer);
    newer->left = s->left;
    inherit(e, newer, s);
  }
  end_stake(e, i);
  join_newer(e, older);
}

static void end_all_stakes(mw_engine *e) {
  uint32_t i;
  for (i = 1; i <= e->journal.stakes.n; i++)
    if (stake_at(e, i)->obj != MW_NONE) end_stake(e, i);
}

/* Returns the oldest stake in the field of a stake, but for those that `owner`
** has already delivered; 0 gives 0. */
static uint32_t oldest_of(const mw_engine *e, uint32_t i, mw_owner owner) {
  uint32_t older = (i == 0) ? 0 : stake_at(e, i)->older;
  for (; older != 0 && stake_at(e, older)->owner != owner;
       older = stake_at(e, i)->older)
    i = older;
  return i;
}

/* Returns the stake that stands for an entry of the owner; 0 if a later write
** to the field is final. */
static uint32_t stake_of(const mw_engine *e, mw_owner owner,
                         const mw_entry *entry, const mw_value *key) {
  uint32_t i = find_stake(e, entry->obj, key);
  while (i != 0 &&
         (stake_at(e, i)->owner != owner || stake_at(e, i)->seq > entry->seq))
    i = stake_at(e, i)->older;
  return i;
}

/* Asks the host for the field of an entry. */
static int field_of_entry(mw_engine *e, mw_owner owner, const mw_entry *entry,
                          mw_value *key, void *host) {
  const mw_host *callbacks = &e->watch.host;
  if (callbacks->field != NULL)
    return callbacks->field(callbacks->ud, owner, entry, key, host);
  key->type = entry->type[MW_KEY];
  key->u = entry->value[MW_KEY];
  return MW_OK;
}

int mwi_entry_counts(mw_engine *e, mw_owner owner, const mw_entry *entry,
                     void *host) {
  mw_value key;
  if (!e->journal.mixed) return 1;
  if (field_of_entry(e, owner, entry, &key, host) != MW_OK) return 1;
  return stake_of(e, owner, entry, &key) != 0;
}

static int stake_range(mw_engine *e, mw_owner owner, void *host) {
  const mwi_owner *o = owner_at(e, owner);
  uint32_t i, end = range_end(e, o);
  for (i = o->mark; i < end; i++) {
    const mw_entry *entry = &log_at(e, o->log)->entries[i];
    mw_value key;
    int code = field_of_entry(e, owner, entry, &key, host);
    if (code == MW_OK && !reserve_stake(e)) code = MW_NOMEM;
    if (code != MW_OK) return code;
    add_stake(e, owner, entry, &key);
  }
  return MW_OK;
}

/* Enters all entries, in their order, into the table of fields. */
static int mix(mw_engine *e, void *host) {
  mwi_journal *part = &e->journal;
  uint32_t log = part->top, owner;
  int code = MW_OK;
  while (log != 0 && log_at(e, log)->below != 0) log = log_at(e, log)->below;
  for (; log != 0 && code == MW_OK; log = log_at(e, log)->above) {
    owner = log_at(e, log)->newest;
    while (owner_at(e, owner)->below != 0) owner = owner_at(e, owner)->below;
    for (; owner != 0 && code == MW_OK; owner = owner_at(e, owner)->above)
      code = stake_range(e, owner, host);
  }
  if (code != MW_OK) {
    end_all_stakes(e);
    return code;
  }
  part->mixed = 1;
  part->top = 0;
  return MW_OK;
}

/* }====================================================== */

/* {======================================================
** Owners
** ======================================================= */

static uint32_t new_log(mw_engine *e) {
  mwi_journal *part = &e->journal;
  uint32_t log = part->free_log;
  if (log != 0) {
    part->free_log = log_at(e, log)->newest;
  } else {
    if (part->n_logs + 1 >= part->size_logs) {
      mwi_log *logs = (mwi_log *)mwi_grow(e, part->logs, part->size_logs,
                                          &part->size_logs, sizeof(*logs));
      if (logs == NULL) return 0;
      part->logs = logs;
    }
    log = ++part->n_logs;
    memset(log_at(e, log), 0, sizeof(mwi_log));
  }
  log_at(e, log)->newest = 0;
  return log;
}

static void free_log(mw_engine *e, uint32_t log) {
  mwi_journal *part = &e->journal;
  mwi_log *l = log_at(e, log);
  if (l->size > MWI_JOURNAL_KEEP) {
    mwi_free(e, l->entries, l->size * sizeof(mw_entry));
    l->entries = NULL;
    l->size = 0;
  }
  l->newest = part->free_log;
  part->free_log = log;
}

/* Takes a log without entries from the logs in order. */
static void unlink_log(mw_engine *e, uint32_t log) {
  mwi_journal *part = &e->journal;
  mwi_log *l = log_at(e, log);
  if (!part->mixed) {
    if (l->above != 0)
      log_at(e, l->above)->below = l->below;
    else
      part->top = l->below;
    if (l->below != 0) log_at(e, l->below)->above = l->above;
  }
  l->above = l->below = 0;
}

/* Gives the owner a parent, or none. */
static void set_parent(mw_engine *e, mw_owner owner, mw_owner parent) {
  mwi_owner *o = owner_at(e, owner);
  o->parent = parent;
  o->prev = 0;
  o->next = (parent == 0) ? 0 : owner_at(e, parent)->child;
  if (o->next != 0) owner_at(e, o->next)->prev = owner;
  if (parent != 0) owner_at(e, parent)->child = owner;
}

mw_owner mw_owner_begin(mw_engine *e, mw_owner parent, mw_owner below) {
  mwi_journal *part = &e->journal;
  mw_owner owner = part->free_owner;
  uint32_t log;
  mwi_owner *o;
  mwi_check_enter(e);
  mwi_check_call(below == 0 || mwi_log_of(part, below)->newest == below);
  if (owner == 0 && part->n_owners + 1 >= part->size_owners) {
    mwi_owner *owners =
        (mwi_owner *)mwi_grow(e, part->owners, part->size_owners,
                              &part->size_owners, sizeof(*owners));
    if (owners == NULL) return 0;
    part->owners = owners;
  }
  log = (below != 0) ? owner_at(e, below)->log : new_log(e);
  if (log == 0) return 0;
  if (owner != 0)
    part->free_owner = part->owners[owner].next;
  else
    owner = ++part->n_owners;
  o = &part->owners[owner];
  memset(o, 0, sizeof(*o));
  o->log = log;
  o->mark = log_at(e, log)->n;
  o->below = below;
  if (below != 0) owner_at(e, below)->above = owner;
  log_at(e, log)->newest = owner;
  set_parent(e, owner, parent);
  part->open++;
  return owner;
}

/* Takes the entries of the owner from its log. */
static void remove_range(mw_engine *e, const mwi_owner *o) {
  mwi_log *log = log_at(e, o->log);
  uint32_t end = range_end(e, o), n = end - o->mark, above;
  if (n == 0) return;
  memmove(log->entries + o->mark, log->entries + end,
          (log->n - end) * sizeof(mw_entry));
  log->n -= n;
  e->journal.entries -= n;
  for (above = o->above; above != 0; above = owner_at(e, above)->above)
    owner_at(e, above)->mark -= n;
  if (log->n == 0) unlink_log(e, o->log);
}

/* Ends an owner without stakes, whose entries belong to the owner below or are
** gone. */
static void end_owner(mw_engine *e, mw_owner owner) {
  mwi_journal *part = &e->journal;
  mwi_owner *o = owner_at(e, owner);
  mwi_assert(o->first == 0);
  while (o->child != 0) {
    mw_owner child = o->child;
    o->child = owner_at(e, child)->next;
    set_parent(e, child, o->parent);
  }
  if (o->prev != 0)
    owner_at(e, o->prev)->next = o->next;
  else if (o->parent != 0)
    owner_at(e, o->parent)->child = o->next;
  if (o->next != 0) owner_at(e, o->next)->prev = o->prev;
  if (o->below != 0) owner_at(e, o->below)->above = o->above;
  if (o->above != 0)
    owner_at(e, o->above)->below = o->below;
  else
    log_at(e, o->log)->newest = o->below;
  if (log_at(e, o->log)->newest == 0) free_log(e, o->log);
  o->log = 0;
  o->next = part->free_owner;
  part->free_owner = owner;
  part->open--;
  if (part->mixed && part->entries == 0) {
    mwi_assert(part->fields.size == 0);
    part->mixed = 0;
  }
}

mw_owner mw_owner_parent(const mw_engine *e, mw_owner owner) {
  return owner_at(e, owner)->parent;
}

const mw_entry *mw_owner_entries(const mw_engine *e, mw_owner owner,
                                 size_t *n) {
  const mwi_owner *o = owner_at(e, owner);
  *n = range_end(e, o) - o->mark;
  return (*n == 0) ? NULL : log_at(e, o->log)->entries + o->mark;
}

/* }====================================================== */

/* {======================================================
** Delivery
** ======================================================= */

/* Delivers an entry of an owner, or of nobody (0).  The old value is what was
** delivered last of the field: that of the oldest stake, if there is a stake.
** Returns 0 if there is nothing to deliver. */
static int deliver_entry(mw_engine *e, mw_owner owner, const mw_entry *entry,
                         uint32_t oldest, int begins, void *host) {
  mw_entry its = *entry;
  mw_values values;
  if (!mwi_is_read(&e->reader)) return 0;
  values.owner = values.old_owner = owner;
  if (oldest != 0) {
    const mw_entry *first = mwi_stake_entry(e, stake_at(e, oldest));
    its.type[MW_OLD] = first->type[MW_OLD];
    its.value[MW_OLD] = first->value[MW_OLD];
    values.old_owner = stake_at(e, oldest)->owner;
  }
  if (!set_kind(&its)) return 0;
  mwi_reader_deliver(e, &its, &values, begins, host);
  return 1;
}

/* }====================================================== */

/* {======================================================
** Writes
** ======================================================= */

/* Makes room for `n` more entries. */
static int reserve_entries(mw_engine *e, uint32_t log, uint32_t n) {
  while (log_at(e, log)->size - log_at(e, log)->n < n) {
    mwi_log *l = log_at(e, log);
    mw_entry *entries;
    if (l->size >= UINT32_MAX / 4) return 0;
    entries = (mw_entry *)mwi_grow(e, l->entries, l->size, &l->size,
                                   sizeof(*entries));
    if (entries == NULL) return 0;
    l->entries = entries;
  }
  return 1;
}

/* Merges `n` entries, which are in order, into the entries from `first` to
** `from`, which are in order too, by sequence number.  There is room above. */
static void merge(mw_entry *entries, uint32_t first, uint32_t from,
                  const mw_entry *others, uint32_t n) {
  uint32_t to = from + n;
  while (n > 0) {
    if (from > first && entries[from - 1].seq > others[n - 1].seq)
      entries[--to] = entries[--from];
    else
      entries[--to] = others[--n];
  }
}

/* Adds entries to the range of an owner.  There is room. */
static void add_entries(mw_engine *e, mw_owner owner, const mw_entry *others,
                        uint32_t n) {
  const mwi_owner *o = owner_at(e, owner);
  mwi_log *log = log_at(e, o->log);
  uint32_t end = range_end(e, o), above;
  memmove(log->entries + end + n, log->entries + end,
          (log->n - end) * sizeof(mw_entry));
  for (above = o->above; above != 0; above = owner_at(e, above)->above)
    owner_at(e, above)->mark += n;
  log->n += n;
  e->journal.entries += n;
  merge(log->entries, o->mark, end, others, n);
}

/* May an entry of the owner (0: a final write) come now in a journal that is
** not mixed? */
static int is_in_order(const mw_engine *e, mw_owner owner) {
  const mwi_owner *o;
  if (owner == 0) return e->journal.entries == 0;
  o = owner_at(e, owner);
  if (log_at(e, o->log)->n == 0) return 1;
  return o->log == e->journal.top && range_end(e, o) == log_at(e, o->log)->n;
}

int mw_journal_reserve(mw_engine *e, mw_owner owner, void *host) {
  mwi_journal *part = &e->journal;
  uint32_t log = (owner == 0) ? 0 : owner_at(e, owner)->log;
  int code = MW_OK;
  mwi_check_enter(e);
  if (!part->mixed && !is_in_order(e, owner)) code = mix(e, host);
  if (code != MW_OK) return code;
  if (part->mixed && owner != 0 && !reserve_stake(e)) return MW_NOMEM;
  if (log != 0 && !reserve_entries(e, log, 1)) return MW_NOMEM;
  return MW_OK;
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
  mw_entry its = *entry;
  mw_value key;
  int code = mw_journal_reserve(e, owner, host);
  mwi_check_call(e->check.restoring == 0);
  if (code == MW_OK && part->mixed) {
    if (field != NULL)
      key = *field;
    else
      code = field_of_entry(e, owner, entry, &key, host);
  }
  if (code != MW_OK) return code;
  if (its.cause == 0) its.cause = mw_cause_now(e);
  its.seq = mwi_journal_stamp(part, entry->seq);
  if (owner != 0) {
    uint32_t log = owner_at(e, owner)->log;
    keep_entry(e, entry, mwi_host_retain);
    if (log_at(e, log)->n == 0 && !part->mixed) {
      log_at(e, log)->below = part->top;
      if (part->top != 0) log_at(e, part->top)->above = log;
      part->top = log;
    }
    add_entries(e, owner, &its, 1);
    if (part->mixed) add_stake(e, owner, &its, &key);
  } else {
    uint32_t i = part->mixed ? find_stake(e, entry->obj, &key) : 0;
    deliver_entry(e, 0, &its, oldest_of(e, i, 0), 1, host);
    settle(e, i);
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
  if (mwi_identity_is_valid(&e->identity, entry.obj))
    callbacks->restore(callbacks->ud, &entry, host);
}

static void restore_range(mw_engine *e, mw_owner owner, void *host) {
  const mwi_owner *o = owner_at(e, owner);
  uint32_t i;
  for (i = range_end(e, o); i > o->mark; i--)
    restore(e, log_at(e, o->log)->entries[i - 1], host);
}

static void restore_stakes(mw_engine *e, mw_owner owner, void *host) {
  uint32_t i;
  for (i = owner_at(e, owner)->last; i != 0; i = stake_at(e, i)->before) {
    const mwi_stake *s = stake_at(e, i);
    if (is_newest(s)) /* else somebody else has written the field */
      restore(e, *mwi_stake_entry(e, s), host);
  }
}

int mw_owner_is_last(const mw_engine *e, mw_owner owner, mw_handle obj,
                     const mw_value *field) {
  uint32_t i = find_stake(e, obj, field);
  return i != 0 && stake_at(e, i)->owner == owner;
}

/* Makes ready what other owners inherit when the owner ends. */
static int bequeath(mw_engine *e, mw_owner owner, void *host) {
  const mw_host *callbacks = &e->watch.host;
  uint32_t i;
  int code = MW_OK;
  for (i = owner_at(e, owner)->last; i != 0; i = stake_at(e, i)->before) {
    mwi_stake *s = stake_at(e, i);
    const mw_entry *first;
    mw_entry its;
    if (s->newer == 0) continue;
    first = mwi_stake_entry(e, s);
    memset(&its, 0, sizeof(its));
    its.obj = s->obj;
    its.kind = first->kind;
    its.type[MW_KEY] = its.type[MW_NOW] = MW_TABSENT;
    its.type[MW_OLD] = first->type[MW_OLD];
    its.value[MW_OLD] = first->value[MW_OLD];
    if (callbacks->hand != NULL)
      code = callbacks->hand(callbacks->ud, owner, stake_at(e, s->newer)->owner,
                             &its, host);
    if (code != MW_OK) return code;
    s->left = its.value[MW_OLD];
  }
  return code;
}

int mw_owner_rewind(mw_engine *e, mw_owner owner, void *host) {
  const mwi_owner *o = owner_at(e, owner);
  int code;
  mwi_check_enter(e);
  mwi_check_call(e->watch.host.restore != NULL);
  if (range_end(e, o) == o->mark) return MW_OK;
  code = (e->journal.mixed || is_in_order(e, owner)) ? MW_OK : mix(e, host);
  if (code == MW_OK && e->journal.mixed) code = bequeath(e, owner, host);
  if (code != MW_OK) return code;
  mwi_restoring_begin(e);
  if (e->journal.mixed)
    restore_stakes(e, owner, host);
  else
    restore_range(e, owner, host);
  mwi_restoring_end(e);
  return MW_OK;
}

void mw_owner_forget(mw_engine *e, mw_owner owner) {
  const mwi_owner *o = owner_at(e, owner);
  uint32_t i, end = range_end(e, o);
  mwi_check_enter(e);
  while (o->last != 0) take_back(e, o->last);
  for (i = o->mark; i < end; i++)
    keep_entry(e, &log_at(e, o->log)->entries[i], mwi_host_release);
  remove_range(e, o);
  end_owner(e, owner);
}

/* The stakes of the owner become the parent's, as the entries have. */
static void hand_stakes(mw_engine *e, mw_owner owner, mw_owner parent) {
  uint32_t i;
  while ((i = owner_at(e, owner)->first) != 0) {
    uint32_t older = stake_at(e, i)->older;
    take_stake(e, i);
    give_stake(e, i, parent);
    join_newer(e, i);
    join_newer(e, older);
  }
}

/* Copies the owner's entries, with the values as the parent has them.  Unless
** MW_OK, there is no copy. */
static int translate(mw_engine *e, mw_owner owner, uint32_t n, void *host,
                     mw_entry **copy) {
  const mw_host *callbacks = &e->watch.host;
  const mwi_owner *o = owner_at(e, owner);
  mw_entry *its = (mw_entry *)mwi_new(e, n * sizeof(*its));
  int code = MW_OK;
  uint32_t i;
  if (its == NULL) return MW_NOMEM;
  for (i = 0; i < n && code == MW_OK; i++) {
    its[i] = log_at(e, o->log)->entries[o->mark + i];
    if (callbacks->hand != NULL)
      code = callbacks->hand(callbacks->ud, owner, o->parent, &its[i], host);
  }
  if (code == MW_OK)
    *copy = its;
  else
    mwi_free(e, its, n * sizeof(*its));
  return code;
}

int mwi_owner_is_mingled(const mw_engine *e, mw_owner owner) {
  const mwi_owner *o = owner_at(e, owner);
  const mw_entry *entries = log_at(e, o->log)->entries;
  return o->below != 0 && range_end(e, o) > o->mark &&
         o->mark > owner_at(e, o->below)->mark &&
         entries[o->mark - 1].seq > entries[o->mark].seq;
}

/* The range of an owner becomes part of the range below. */
static int join_ranges(mw_engine *e, mw_owner owner) {
  const mwi_owner *o = owner_at(e, owner);
  uint32_t n = range_end(e, o) - o->mark;
  mw_entry *entries = log_at(e, o->log)->entries, *copy;
  if (!mwi_owner_is_mingled(e, owner)) return MW_OK;
  copy = (mw_entry *)mwi_new(e, n * sizeof(*copy));
  if (copy == NULL) return MW_NOMEM;
  memcpy(copy, entries + o->mark, n * sizeof(*copy));
  merge(entries, owner_at(e, o->below)->mark, o->mark, copy, n);
  mwi_free(e, copy, n * sizeof(*copy));
  return MW_OK;
}

/* Moves the entries of the first owner of a log to the parent's log. */
static int hand_entries(mw_engine *e, mw_owner owner, void *host) {
  mwi_journal *part = &e->journal;
  const mwi_owner *o = owner_at(e, owner), *parent = owner_at(e, o->parent);
  uint32_t n = range_end(e, o) - o->mark;
  mwi_log *log = log_at(e, o->log), *to = log_at(e, parent->log);
  int follows = o->log == part->top &&
                (to->n == 0 ||
                 (log->below == parent->log && range_end(e, parent) == to->n));
  mw_entry *copy;
  int code = (part->mixed || follows) ? MW_OK : mix(e, host);
  if (code != MW_OK) return code;
  if (!reserve_entries(e, parent->log, n)) return MW_NOMEM;
  code = translate(e, owner, n, host, &copy);
  if (code != MW_OK) return code;
  if (!part->mixed && to->n == 0) { /* `to` comes directly below `log` */
    to->below = log->below;
    to->above = o->log;
    if (to->below != 0) log_at(e, to->below)->above = parent->log;
    log->below = parent->log;
  }
  add_entries(e, o->parent, copy, n);
  mwi_free(e, copy, n * sizeof(*copy));
  remove_range(e, o);
  return MW_OK;
}

/* Delivers the entries of the owner that count: in a mixed journal, the others
** have been followed by a final write to their field.  What is delivered of a
** field is final itself. */
static void deliver_range(mw_engine *e, mw_owner owner, void *host) {
  const mwi_owner *o = owner_at(e, owner);
  uint32_t i, end = range_end(e, o);
  int begins = 1;
  for (i = o->mark; i < end; i++) {
    const mw_entry *entry = &log_at(e, o->log)->entries[i];
    uint32_t its = 0, oldest = 0;
    if (e->journal.mixed) {
      mw_value key;
      if (field_of_entry(e, owner, entry, &key, host) != MW_OK) {
        mwi_reader_lose(e);
        continue;
      }
      its = stake_of(e, owner, entry, &key);
      if (its == 0) continue;
    }
    if (its != 0 && stake_at(e, its)->seq == entry->seq)
      oldest = oldest_of(e, its, owner);
    begins &= !deliver_entry(e, owner, entry, oldest, begins, host);
    if (its != 0) settle(e, stake_at(e, its)->older);
  }
}

/* No owner can take the entries of the first owner of a log back. */
static int make_final(mw_engine *e, mw_owner owner, void *host) {
  const mwi_owner *o = owner_at(e, owner);
  uint32_t i, end = range_end(e, o);
  if (!e->journal.mixed && log_at(e, o->log)->below != 0) {
    int code = mix(e, host);
    if (code != MW_OK) return code;
  }
  if (mwi_is_read(&e->reader)) deliver_range(e, owner, host);
  while (o->first != 0) {
    settle(e, stake_at(e, o->first)->older);
    end_stake(e, o->first);
  }
  for (i = o->mark; i < end; i++)
    keep_entry(e, &log_at(e, o->log)->entries[i], mwi_host_release);
  remove_range(e, o);
  return MW_OK;
}

int mw_owner_commit(mw_engine *e, mw_owner owner, void *host) {
  const mwi_owner *o = owner_at(e, owner);
  int has_entries = range_end(e, o) > o->mark, code = MW_OK;
  mwi_check_enter(e);
  if (o->below != 0) { /* the range becomes part of the range below */
    code = join_ranges(e, owner);
    if (code == MW_OK) hand_stakes(e, owner, o->below);
  } else if (has_entries && o->parent != 0) {
    code = hand_entries(e, owner, host);
    if (code == MW_OK) hand_stakes(e, owner, o->parent);
  } else if (has_entries) {
    code = make_final(e, owner, host);
  }
  if (code == MW_OK) end_owner(e, owner);
  return code;
}

/* }====================================================== */

/* {======================================================
** What was delivered
** ======================================================= */

/* Goes on to the next field of a mixed journal. */
static int next_oldest(const mw_engine *e, mwi_undone *walk) {
  while (++walk->at <= e->journal.stakes.n) {
    const mwi_stake *s = stake_at(e, walk->at);
    if (s->obj == MW_NONE || s->older != 0 || s->settled) continue;
    walk->entry = *mwi_stake_entry(e, s);
    walk->owner = s->owner;
    return 1;
  }
  return 0;
}

/* Goes down the logs; each log in order has entries. */
int mwi_journal_undone(const mw_engine *e, mwi_undone *walk) {
  if (e->journal.mixed) return next_oldest(e, walk);
  if (walk->at == 0) {
    walk->log = (walk->log == 0) ? e->journal.top : log_at(e, walk->log)->below;
    if (walk->log == 0) return 0;
    walk->at = log_at(e, walk->log)->n;
    walk->owner = log_at(e, walk->log)->newest;
  }
  walk->entry = log_at(e, walk->log)->entries[--walk->at];
  while (owner_at(e, walk->owner)->mark > walk->at)
    walk->owner = owner_at(e, walk->owner)->below;
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
  if (r->tracked < 2) r->tracked = below ? 2 : 1;
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
  mwi_tree_end_roots(e, obj, 1);
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
  for (i = 1; i <= part->n_logs; i++)
    f(e, part->logs[i].entries, part->logs[i].size * sizeof(mw_entry));
  f(e, part->logs, part->size_logs * sizeof(*part->logs));
  f(e, part->owners, part->size_owners * sizeof(*part->owners));
  mwi_pool_blocks(e, &part->stakes, sizeof(mwi_stake), f);
  mwi_table_blocks(e, &part->fields, f);
}
