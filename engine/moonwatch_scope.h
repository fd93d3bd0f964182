/*
** moonwatch_scope.h - a chapter of the manual; moonwatch.h includes it.
** SPDX-License-Identifier: MIT
*/
#ifndef MOONWATCH_SCOPE_H
#define MOONWATCH_SCOPE_H

#ifndef MOONWATCH_H
#error include moonwatch.h instead
#endif

/* {======================================================
** Scopes: what is executing
**
** In a hierarchy each thread has a stack of the objects that it executes, each
** under a name.
**
**     mw_scope_enter(e, scopes, thread, player, name)
**         mw_scope_enter(e, scopes, thread, sword, another_name)
**         mw_scope_leave(e, scopes, thread, sword)
**     mw_scope_leave(e, scopes, thread, player)
**
** A thread is a handle, so that its stack goes when it is forgotten; MW_NONE
** will do for a host that has only one.  Names are numbers that the host gives,
** but not 0.
** ======================================================= */

/* The number of a hierarchy in its engine; passing one that is not open is the
** caller's error. */
typedef uint32_t mw_scopes;

/* What was entered, and as what. */
typedef struct mw_frame {
  mw_handle obj;
  uint32_t name;
} mw_frame;

/* Opens a hierarchy.  MW_OK: `*scopes` is its number.  MW_NOMEM. */
MW_API int mw_scopes_open(mw_engine *e, mw_scopes *scopes);

/* Closes it; its number may be given again. */
MW_API void mw_scopes_close(mw_engine *e, mw_scopes scopes);

/* Empties all its stacks; names stay. */
MW_API void mw_scopes_reset(mw_engine *e, mw_scopes scopes);

/* How many frames there are in all its stacks: when there are none, the names
** in use are those of objects. */
MW_API size_t mw_scopes_frames(const mw_engine *e, mw_scopes scopes);

/* Notes what `obj` is called, and below which object (or MW_NONE), until it is
** forgotten.  MW_OK, MW_NOMEM or MW_STALE. */
MW_API int mw_scope_name(mw_engine *e, mw_scopes scopes, mw_handle obj,
                         mw_handle parent, uint32_t name);

/* What was noted; 0 when nothing was, and then `*parent` is untouched. */
MW_API uint32_t mw_scope_named(const mw_engine *e, mw_scopes scopes,
                               mw_handle obj, mw_handle *parent);

/* `thread` enters `obj`, under a name, which need not be what was noted.  It
** may be in it already.  MW_OK, MW_NOMEM or MW_STALE. */
MW_API int mw_scope_enter(mw_engine *e, mw_scopes scopes, mw_handle thread,
                          mw_handle obj, uint32_t name);

/* It leaves what it entered last as `obj`, and all that it entered since, which
** an error may have skipped.  MW_OK; MW_STALE: it is not in it. */
MW_API int mw_scope_leave(mw_engine *e, mw_scopes scopes, mw_handle thread,
                          mw_handle obj);

/* It leaves all but the `depth` outermost. */
MW_API void mw_scope_cut(mw_engine *e, mw_scopes scopes, mw_handle thread,
                         uint32_t depth);

/* What it is in, the outermost first, and how many; good until the next call
** that enters.  The handles of objects that died meanwhile are stale. */
MW_API const mw_frame *mw_scope_frames(const mw_engine *e, mw_scopes scopes,
                                       mw_handle thread, uint32_t *n);

/* How often the name is among them. */
MW_API uint32_t mw_scope_count(const mw_engine *e, mw_scopes scopes,
                               mw_handle thread, uint32_t name);

/* }====================================================== */

#endif
