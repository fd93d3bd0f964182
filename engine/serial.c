/*
** serial.c - numbers for objects, in the order in which they were asked for.
** SPDX-License-Identifier: MIT
**
**     given (a clock): slot -> serial      shards[serial % 64]: serial -> slot
**
** Invariant: the two are inverse to each other.  A serial is a generation of a
** clock that advances with each object it tags; so only objects that somebody
** asked for pay for one.  It is sharded like identity, to never pause.
*/
#include "engine.h"

#define engine_of(h) (((const struct mwi_serial_shard *)(const void *)(h))->e)

#include "hash.h"

#define SHARDS 64u

/* In one shard, the serials count up in steps of SHARDS. */
#define serial_hash(serial) ((khint_t)((serial) / SHARDS))

MWI_KLIB_BEGIN
__KHASH_TYPE(serials, uint64_t, uint32_t)
struct mwi_serial_shard {
  kh_serials_t table; /* first: a table is its shard */
  mw_engine *e;
};
__KHASH_IMPL(serials, static inline klib_unused, uint64_t, uint32_t, 1,
             serial_hash, kh_int64_hash_equal)
MWI_KLIB_END

static kh_serials_t *shard_of(const mw_engine *e, uint64_t serial) {
  return &e->serial.shards[serial % SHARDS].table;
}

int mwi_serial_open(mw_engine *e) {
  mwi_serials *part = &e->serial;
  uint32_t i;
  part->shards =
      (struct mwi_serial_shard *)mwi_new(e, SHARDS * sizeof(*part->shards));
  if (part->shards == NULL) return MW_NOMEM;
  for (i = 0; i < SHARDS; i++) part->shards[i].e = e;
  return mw_clock_open(e, NULL, 0, &part->given);
}

void mwi_serial_close(mw_engine *e) {
  mwi_serials *part = &e->serial;
  uint32_t i;
  for (i = 0; i < SHARDS && part->shards != NULL; i++) {
    kh_serials_t *h = &part->shards[i].table;
    mwi_klib_clear(h);
  }
  mwi_free(e, part->shards, SHARDS * sizeof(*part->shards));
}

/* Gives `h` the next serial. */
static int give(mw_engine *e, mw_handle h) {
  uint64_t *now = &e->clock.clocks[e->serial.given].now;
  kh_serials_t *shard = shard_of(e, *now + 1);
  int fresh, code;
  khint_t at = kh_put_serials(shard, *now + 1, &fresh);
  if (fresh < 0) return MW_NOMEM;
  shard->vals[at] = mw_slot(h);
  ++*now;
  code = mw_clock_tag(e, e->serial.given, h);
  if (code == MW_OK) return MW_OK;
  mwi_assert(fresh > 0);
  kh_del_serials(shard, at);
  --*now;
  return code;
}

int mw_object_serial(mw_engine *e, mw_handle h, uint64_t *serial) {
  int64_t n = mw_clock_generation(e, e->serial.given, h);
  if (n < 0) {
    int code = give(e, h);
    if (code != MW_OK) return code;
    n = mw_clock_now(e, e->serial.given);
  }
  *serial = (uint64_t)n;
  return MW_OK;
}

mw_handle mw_serial_object(mw_engine *e, uint64_t serial) {
  kh_serials_t *shard = shard_of(e, serial);
  khint_t at = kh_get_serials(shard, serial);
  if (at == shard->n_buckets) return MW_NONE;
  return mwi_identity_handle(&e->identity, shard->vals[at]);
}

void mwi_serial_forget(mw_engine *e, uint32_t slot) {
  uint64_t *tag = mwi_clock_tag(&e->clock.clocks[e->serial.given], slot);
  kh_serials_t *shard;
  if (tag == NULL || *tag == 0) return;
  shard = shard_of(e, *tag - 1);
  mwi_assert(kh_get_serials(shard, *tag - 1) != kh_end(shard));
  kh_del_serials(shard, kh_get_serials(shard, *tag - 1));
}

#ifdef MW_CHECKS
size_t mwi_serial_entries(const mw_engine *e) {
  size_t i, n = 0;
  for (i = 0; i < SHARDS; i++) n += e->serial.shards[i].table.size;
  return n;
}
#endif
