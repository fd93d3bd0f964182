/*
** moonwatch_trace.h - a chapter of the manual; moonwatch.h includes it.
** SPDX-License-Identifier: MIT
*/
#ifndef MOONWATCH_TRACE_H
#define MOONWATCH_TRACE_H

#ifndef MOONWATCH_H
#error include moonwatch.h instead
#endif

/* {======================================================
** Traces: what happened when
**
**     mw_trace_open(e, 100000, now, ud, &t)
**     mw_trace_start(e, t)
**     name = mw_trace_name(e, "draw", 4, 0)
**     id = mw_trace_begin(e, thread, name, NULL, 0)
**     mw_trace_counter(e, thread, name, 60)
**     mw_trace_end(e, id, NULL, 0)
**     mw_trace_stop(e, t)
**     mw_trace_write(e, t, MW_CHROME, "thread", sink, ud)
**
** A trace is a ring of events of a fixed size: when it is full, the oldest are
** lost.  One runs at a time.  While none does, the functions that note
** something cost a branch.
** ======================================================= */

/* A trace.  Opaque; owned by whoever opened it, until it is closed or the
** engine is. */
typedef struct mw_trace mw_trace;

/* What time it is: nanoseconds since some moment, which never go back.  Must
** not call the engine. */
typedef int64_t (*mw_now)(void *ud);

/* A number by which the host knows one of its threads; 1 for the first. */
typedef uint32_t mw_thread;

/* The number of a name in the trace that runs.  0 is no name. */
typedef uint32_t mw_name;

/* Opens a trace for the last `capacity` events, whose memory is taken at once.
** MW_OK, or MW_NOMEM. */
MW_API int mw_trace_open(mw_engine *e, size_t capacity, mw_now now, void *ud,
                         mw_trace **trace);

/* Stops and frees it.  `t` may be NULL. */
MW_API void mw_trace_close(mw_engine *e, mw_trace *t);

/* Starts it, or goes on with it.  MW_OK (it may be running); MW_FULL: another
** one is. */
MW_API int mw_trace_start(mw_engine *e, mw_trace *t);

/* Stops it, if it runs: what is open then ends there. */
MW_API void mw_trace_stop(mw_engine *e, mw_trace *t);

/* The one that runs, or NULL. */
MW_API mw_trace *mw_tracing(const mw_engine *e);

/*
** The number of a name (`len` bytes, any bytes; copied) in a category, which is
** a name too, or 0.  Answers 0 when no trace runs and when there is no memory;
** events with that name are lost.
*/
MW_API mw_name mw_trace_name(mw_engine *e, const char *s, size_t len,
                             mw_name category);

/*
** Something begins in a thread.  Answers an identity for `mw_trace_end`, never
** 0 unless it was not noted.  `args`, if not NULL, is the text of a JSON
** object, `len` bytes; it is copied, not looked at, and left out if there is no
** memory.
*/
MW_API uint64_t mw_trace_begin(mw_engine *e, mw_thread thread, mw_name name,
                               const char *args, size_t len);

/* It ends, with what began later in its thread and has not ended.  If its begin
** was lost or is in another trace, this is nothing; `id` may be 0. */
MW_API void mw_trace_end(mw_engine *e, uint64_t id, const char *args,
                         size_t len);

/* Something happens. */
MW_API void mw_trace_instant(mw_engine *e, mw_thread thread, mw_name name,
                             const char *args, size_t len);

/* Something has that many, which must be finite, or it is lost. */
MW_API void mw_trace_counter(mw_engine *e, mw_thread thread, mw_name name,
                             double value);

/* How many events it has. */
MW_API size_t mw_trace_count(const mw_trace *t);

/* And how many it has lost. */
MW_API uint64_t mw_trace_lost(const mw_trace *t);

/* Takes some bytes of a text; answers 0 when it cannot.  Must not call the
** engine. */
typedef int (*mw_sink)(void *ud, const char *bytes, size_t n);

/* How a trace can be written. */
enum mw_format {
  MW_CHROME,    /* Chrome's trace events, which Perfetto opens */
  MW_SPEEDSCOPE /* the profiles of speedscope.app */
};

/*
** Writes a trace, which may be running, as JSON.  In each thread what begins
** ends, properly nested, and times do not go back: ends whose begin was lost
** are left out, and what has not ended ends when the trace was stopped, or now.
** Thread 1 is called "main", others `thread` and their number.  MW_OK;
** MW_NOMEM; MW_REFUSED when the sink has refused something.
*/
MW_API int mw_trace_write(mw_engine *e, const mw_trace *t,
                          enum mw_format format, const char *thread,
                          mw_sink sink, void *ud);

/* }====================================================== */

#endif
