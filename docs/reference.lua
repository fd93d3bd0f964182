--- All that programs can use of the library: the one table from which the
-- reference on the docs' pages, their index and types/moonwatch.lua are made.
-- SPDX-License-Identifier: MIT
--
-- A list of groups.  A group stands on the page docs/<page>.md and is a list of
--
--     { "mw.id(obj: moonwatch.Object) -> serial: integer", "What it does." }
--     { class = "moonwatch.Guard", name = "guard", "What it is.", ... }
--     { class = "moonwatch.HistoryOptions", "What they are for.", ... }
--     { alias = "moonwatch.Kind", "What it is.", { value, text }, ... or a
--       type }
--
-- A class has a list of functions and fields.  `name` is the variable under
-- which its methods are written; a class without a name is a table that
-- programs write or get.  Optional parameters, fields and results are marked
-- with `?`.  Types are those of the Lua language server (LuaCATS).  A signature
-- can have further forms: the list `more`.

return {

{ page = "identity", title = "Identity",
  { alias = "moonwatch.Object", [[What has an identity: a table, a full
    userdata, a function or a thread.]],
    "table|userdata|function|thread" },
  { "mw.id<T: moonwatch.Object>(obj: T) -> serial: integer", [[Returns the
    object's serial: 1, 2, 3 and so on, the same for the object's whole life and
    never given to another object.]] },
  { "mw.object(serial: integer) -> obj?: any", [[Returns the live object of a
    serial, or nil.]] },
  { "mw.weakmap(on_death?: fun(value: any, id: integer)) -> map:\z
      moonwatch.WeakMap", [[Returns a table with weak keys that are compared by
    identity. `on_death` is called once for each key that was collected, after
    the entry is gone. An error in it goes to `mw.on_error`, else the next call
    raises the first.]] },
  { "mw.reap(budget?: integer) -> n: integer", [[Deals with the deaths of
    objects now, with at most `budget` of them, and returns how many there were.
    This also happens in small slices whenever the library is used. With a
    budget, the library also looks at no more than 10,000 objects and 100 for
    each death of the budget.]] },
  { class = "moonwatch.WeakMap", name = "map", [[A table with weak keys, from
    `mw.weakmap`. A value that refers to its key does not keep the key. `#map`
    and `pairs(map)` work.]],
    { "map:set(key: moonwatch.Object, value: any)", [[Stores a value; nil
      removes the entry.]] },
    { "map:get(key: any, default?: any) -> value: any", [[Returns the value of a
      key, or `default`.]] },
    { "map:has(key: any) -> found: boolean", [[Tells whether there is an entry
      for the key.]] },
    { "map:remove(key: any) -> old: any", [[Removes an entry and returns its
      value.]] },
    { "map:clear()", [[Removes all entries.]] },
    { "map:len() -> n: integer", [[Returns the number of entries whose keys are
      alive. After a collection it is counted anew.]] },
    { "map:pairs() -> next: (fun(...: any): any, any), state: any, \z
        first: any", [[Iterates over the entries that are there from start to
      end, each once; the loop may add, remove and collect.]] } },
  { "mw.version: string", [[The version of the library.]] },
  { "mw._VERSION: string", [[The name and the version of the library.]] },
},

{ page = "clocks", title = "Clocks",
  { "mw.clock(name?: string) -> clock: moonwatch.Clock", [[Returns the clock of
    that name, or the default clock. A clock starts at generation 0.]] },
  { class = "moonwatch.Clock", name = "clock", [[A clock counts generations and
    tags objects with them.]],
    { "clock:now() -> generation: integer", [[Returns the current
      generation.]] },
    { "clock:advance() -> generation: integer", [[Begins the next generation and
      returns its number.]] },
    { "clock:tag<T: moonwatch.Object>(obj: T) -> obj: T", [[Tags an object with
      the current generation, in place of an earlier one.]] },
    { "clock:generation(obj: any) -> generation: integer", [[Returns the
      generation of an object, or -1 if the clock never tagged the object.]] },
    { "clock:is_current(obj: any) -> current: boolean", [[Tells whether the
      object was tagged in the current generation.]] },
    { "clock:since(generation: integer) -> next: fun(): (any, integer)",
      [[Iterates over the live objects that were tagged in this generation or
      later, with their generations. It passes over older ones 256 at a
      time.]] },
    { "clock:reset()", [[Goes back to generation 0 and forgets all tags.]] } },
  { "mw.mark_dynamic(class: table, on?: boolean)", [[Marks exactly this class,
    not its subclasses, as dynamic; with false, takes the mark away. A class is
    a metatable, of userdata too, or the table that stands for it.]] },
  { "mw.is_marked(class: any) -> marked: boolean", [[Tells whether the class is
    marked.]] },
},

{ page = "watch", title = "Watch",
  { "mw.watch(obj: table|userdata, guard: moonwatch.Guards, opts?:\z
      moonwatch.WatchOptions) -> watch: moonwatch.Watch", [[Calls the guard
    when a table, or a userdata with a metatable, is written: a function as
    `guard(obj, key, old, new, kind)`; of a table or userdata, which is held
    weakly, the method `guard:invalidate(obj, key, old, new, kind)`; an
    `mw.guard()` becomes invalid. The guards of several roots above an object
    are called in the order in which each root was first watched deeply.]] },
  { class = "moonwatch.WatchOptions", [[Which writes fire a watch, and
    when.]],
    { "once?: boolean", [[Does the watch end with the first write that fires it?
      By default true for a guard with a method `invalidate`, else false.]] },
    { "key?: any", [[Only writes to this field.]] },
    { "keys?: any[]", [[Only writes to these fields.]] },
    { "phase?: moonwatch.Phase", [[When the guard is called; `"before"` by
      default.]] },
    { "equal?: \"fire\"|\"skip\"", [[With `"skip"`, not for a write of the same
      value; `"fire"` by default.]] },
    { "when?: moonwatch.GuardFunction", [[Gets the arguments of the guard, but
      of a deep watch the written object and its key; the guard is called only
      if this function returns true.]] },
    { "existing?: boolean", [[Calls the guard at once for each field that is
      there, with the kind `"existing"`.]] },
    { "deep?: boolean", [[For writes to anything below the object, too: the
      guard gets the path, an array of keys, in place of the key, and the
      written object after the kind. Classes are no contents: a table that is
      the class, or the `__index`, of something below is not entered, nor are
      named classes and the tables of Lua itself.]] },
    { "descend?: moonwatch.Descend", [[Of a deep watch: decides, instead of the
      policy, whether a table is included. Asked when a field comes to hold a
      table that is not below that parent yet.]] },
    { "path?: any[]", [[A deep watch of this way only, such as `{ "enemies",
      mw.any, "hp" }`: of writes to the fields on the way and at its end. With
      `equal = "skip"`, a table that is replaced on the way counts only if
      values at the end differ. Excludes `key` and `keys`.]] } },
  { alias = "moonwatch.Phase", [[When a guard is called.]],
    { "before", "before the value is stored" },
    { "after", "after the value is stored" },
    { "check", [[before the write counts; an error refuses the write, and
      `return true, value` stores that value instead; no other guard is called
      for a write that a check refuses]] } },
  { alias = "moonwatch.Kind", [[What sort of change it is.]],
    { "insert", "the field was absent before" },
    { "update", "the field had another value, or the same" },
    { "delete", "the new value is nil" },
    { "call", "a call of a method that a policy names as a mutator" },
    { "raw", [[a write that went past the library, found by `mw.sync`; or that
      of `mw.see_through`'s `rawset`]] },
    { "metatable", "the object has another metatable" },
    { "rollback", "a write was taken back" },
    { "apply", "effects were applied" },
    { "touch", "said by hand, with `mw.touch`" },
    { "existing", "the field was there when the watch began" } },
  { alias = "moonwatch.GuardFunction", [[A guard that is a function. With `phase
    = "check"` it may return true and another value.]],
    "fun(obj: any, key: any, old: any, new: any, kind: moonwatch.Kind, \z
      written: any): boolean?, any" },
  { alias = "moonwatch.Guards", [[What can be a guard.]],
    "moonwatch.GuardFunction|moonwatch.Guard|moonwatch.GuardObject" },
  { class = "moonwatch.GuardObject", [[An object that is a guard.]],
    { "invalidate: fun(self: any, obj: any, key: any, old: any, new: any, \z
        kind: moonwatch.Kind, written: any)", [[Called for each write.]] } },
  { alias = "moonwatch.Descend", [[Decides whether a deep watch or track goes
    down to a table.]],
    "fun(parent: any, key: any, child: any): any" },
  { "mw.any: lightuserdata", [[Any one key, in the option `path`.]] },
  { class = "moonwatch.Handle", name = "handle", [[What a subscription is; it
    can be closed with `<close>`.]],
    { "handle:cancel()", [[Ends it. A second call does nothing.]] } },
  { class = "moonwatch.Watch : moonwatch.Handle", name = "watch", [[The handle
    of `mw.watch`.]],
    { "watch:cancel()", [[Ends the watch. A second call does nothing.]] },
    { "watch:alive() -> alive: boolean", [[Tells whether the watch can still
      fire.]] } },
  { "mw.guard() -> guard: moonwatch.Guard", [[Returns the cheapest guard: a bit,
    which a write makes false without a call into Lua.]] },
  { class = "moonwatch.Guard", name = "guard", [[A bit, from `mw.guard`.]],
    { "guard.valid: boolean", [[True until the first write to what the guard
      watches. `revalidate` sets it again.]] },
    { "guard:revalidate()", [[Makes the guard valid again.]] } },
  { "mw.batch(fn: function, ...: any) -> ...: any", [[Calls `fn(...)` and
    returns its results. Guards that writes within concern are called once each
    at the end of the outermost batch, with the last key that concerns them, the
    value from before the batch and the new one. The function may yield: a batch
    owns the writes of its coroutine and of those that it drives. Without a
    function, returns a batch for `local batch <close> = mw.batch()`.]],
    more = { "mw.batch() -> batch: moonwatch.Batch" } },
  { class = "moonwatch.Batch", name = "batch", [[A batch for a block, from
    `mw.batch()`.]],
    { "batch:close()", [[Ends the batch. A second call does nothing.]] } },
  { "mw.on_error(handler?: fun(err: any, where: string)) -> former?: function",
    [[Sets the function that takes the errors of guards, hooks and callbacks,
    and returns the former one. Without a function, the first error of a guard
    is raised from the writing statement, after all guards were called and the
    value was stored; the first error that no statement made, by the next call
    of the library that may raise.]] },
  { "mw.mutations(obj: any) -> n: integer", [[Returns the number of writes since
    the object was first watched.]] },
  { "mw.changed_since(obj: any, generation: integer) -> changed: boolean",
    [[Tells whether a watched object was written in this generation of the
    default clock or later.]] },
  { "mw.last_change(obj: any) -> generation: integer", [[Returns the generation
    of the default clock in which a watched object was last written, or -1.]] },
  { "mw.is_watched(obj: any) -> watched: boolean", [[Tells whether the object is
    watched.]] },
  { "mw.unwatch(obj: any) -> plain: boolean", [[Ends all watches of an object
    and gives it back as a plain one. Returns false where the object stays
    tracked, or below something that is watched or tracked deeply.]] },
  { "mw.paths(obj: table, below: table) -> paths: any[][]", [[Returns all ways
    from an object that is watched or tracked deeply to an object below, each an
    array of keys, the shortest first.]] },
  { "mw.sync(obj: any) -> found: boolean", [[Makes contents of what `rawset` or
    C code put into a watched object, and tells of it with the kind `"raw"`.
    Until then it is shown by reads and `pairs`, and writes to it are not
    heard.]] },
  { "mw.touch(obj: any, key?: any)", [[Calls the guards for a write that the
    library cannot see.]] },
  { "mw.plain<T>(value: T) -> copy: T", [[Returns a deep copy that nothing
    tracks, with the same sharing, cycles and classes: for printers and
    serialisers. The copy has no metatable where the class has `__gc` or
    `__close` or keeps the fields elsewhere; classes and weak tables in fields
    are themselves.]] },
  { "mw.see_through(env: table) -> handle: moonwatch.Handle", [[Puts `next`,
    `pairs`, `rawget`, `rawset`, `rawlen`, `getmetatable` (nil for an object
    without a class) and `setmetatable` that know watched objects into the table
    `env`, until the handle is cancelled, which puts back what is still its
    own.]] },
  { "mw.setmetatable<T: table>(obj: T, metatable?: table) -> obj: T", [[Gives a
    watched object another metatable; of other objects, the same as Lua's
    `setmetatable`.]] },
  { "mw.refresh(class: table) -> n: integer", [[Gives the watched objects of a
    class the metamethods that the class has now, and returns how many objects
    there are: the line for a function that reloads a class.]] },
},

{ page = "memo", title = "Memos",
  { "mw.memo(fn: function, ...: any) -> memo: moonwatch.Memo", [[Returns a
    callable with the results of `fn()`, which are computed again only after a
    write to one of the objects that follow, or after a memo among them is out
    of date.]] },
  { class = "moonwatch.Memo", name = "memo", call = "(): any",
    [[The results of a function, from `mw.memo`. Calls have no arguments.]],
    { "memo:valid() -> valid: boolean", [[Tells whether the results are up to
      date.]] },
    { "memo:invalidate()", [[Makes the results out of date.]] },
    { "memo:on(obj: table|userdata, opts?: moonwatch.MemoOptions) -> memo:\z
        moonwatch.Memo", [[Lets the results depend on less, or on more, than all
      fields of one object.]] } },
  { class = "moonwatch.MemoOptions", [[What of an object a memo depends on; as
    in `moonwatch.WatchOptions`.]],
    { "deep?: boolean", [[On all that is below the object.]] },
    { "key?: any", [[On this field.]] },
    { "keys?: any[]", [[On these fields.]] },
    { "path?: any[]", [[On this way.]] },
    { "equal?: \"fire\"|\"skip\"", [[With `"skip"`, not for a write of the same
      value.]] },
    { "when?: moonwatch.GuardFunction", [[Only for writes for which this
      function returns true.]] } },
},

{ page = "policy", title = "Policies",
  { "mw.policy(definition: moonwatch.PolicyDefinition) -> policy:\z
      moonwatch.Policy", [[Returns a policy made of a table. It is in force
    after `policy:use()`.]] },
  { "mw.load_policy(path: string, env?: table) -> policy?: moonwatch.Policy, \z
      message?: string", [[Returns a policy made of a file, which runs in a
    box with a budget of instructions and memory; nil and a message if the file
    is not good. The file finds the fields of `env` among its
    globals.]] },
  { class = "moonwatch.Policy", name = "policy", [[A policy, from `mw.policy` or
    `mw.load_policy`.]],
    { "policy.errors: table<string, integer>", [[How often a function of the
      policy raised each error. A rule that raises is skipped; each error
      goes to `mw.on_error` once.]] },
    { "policy:use() -> former: moonwatch.Policy", [[Puts the policy into force
      and returns the former one.]] },
    { "policy:reload() -> ok?: boolean, message?: string", [[Reads the file
      again. If the file is bad, the last good one stays in force.]] },
    { "policy:poll() -> reloaded?: boolean, message?: string", [[Reads the file
      again if its time or size has changed; cheap enough for each frame.]] } },
  { class = "moonwatch.PolicyDefinition", [[The fields of a policy; what is
    absent is as in the default policy.]],
    { "rules?: moonwatch.Rule[]", [[Which objects count as dynamic: the first
      rule that does not return nil decides.]] },
    { "classes?: table<any, moonwatch.ClassRules>", [[What is special about a
      class, by its name or by the class itself.]] },
    { "entries?: string[]", [[The names of methods by which the default rules
      know what runs.]] },
    { "descend?: moonwatch.Descend", [[May a deep watch or track go there?]] },
    { "name?: fun(parent_name: string, key: any, child: any): string?", [[What
      an object is called in a hierarchy.]] },
    { "class_name?: fun(obj: any): string?", [[What a root is called in a
      hierarchy.]] },
    { "register?: fun(obj: any, event: any, fn: function): any", [[Registers a
      hook of a plan, instead of `obj:on(event, fn)`.]] } },
  { class = "moonwatch.Rule", [[One rule: `{ name, function(obj, ctx) }`.]],
    { "[1]: string", [[The name, which is the reason of a decision.]] },
    { "[2]: fun(obj: any, ctx: any): any", [[Decides, or returns nil.]] } },
  { class = "moonwatch.ClassRules", [[What is special about a class.]],
    { "mutators?: string[]", [[Methods whose calls count as writes, with the
      kind `"call"`.]] },
    { "ignore?: any[]", [[Fields whose writes are stored and nothing else.]] },
    { "constructors?: (string|function)[]", [[The constructors, for
      `mw.instrument`.]] },
    { "events?: any[]", [[The events that a hook of a plan may name.]] },
    { "deep?: boolean", [[With false, deep watches and tracks stay out.]] },
    { "new?: fun(): any", [[Makes an object that is to be filled.]] },
    { "snapshot?: fun(obj: any): any", [[Of a userdata: its state as a plain
      value.]] },
    { "restore?: fun(obj: any, state: any)", [[Of a userdata: gives it a state
      back.]] } },
  { "mw.sandbox(opts?: moonwatch.SandboxOptions) -> box: moonwatch.Sandbox",
    [[Returns a box, which guards a program against mistakes of code: a call may
    use so many instructions and so much memory, and finds only what the box is
    given. It is no wall against an attacker.]] },
  { class = "moonwatch.SandboxOptions", [[What a box is given and may use.]],
    { "env?: table", [[Its fields are copied into the globals of the box, where
      Lua's own functions are the box's.]] },
    { "instructions?: integer", [[The instructions of each call; a million by
      default. A byte of a text that is loaded counts as one, and so do 256
      bytes that are allocated.]] },
    { "memory?: integer", [[The bytes that a call may have allocated and not
      given back while it runs; 16 MB by default.]] },
    { "name?: string", [[The name, in messages, of chunks that have none.]] } },
  { class = "moonwatch.Sandbox", name = "box", [[A box, from `mw.sandbox`.]],
    { "box:load(text: string, chunkname?: string) -> fn?: function, \z
        message?: string", [[Compiles a text within the budget; nil and a
      message if the text is not good. `chunkname` is as in `load`.]] },
    { "box:call(fn: function, ...: any) -> ok: boolean, ...: any", [[Calls a
      function with the box's budget. Returns true and its results, or false and
      a text.]] },
    { "box:used() -> instructions: integer, bytes: integer", [[Returns what the
      last call used: instructions, and the most bytes at a time.]] } },
  { "mw.instrument(class: table, rules?: moonwatch.InstrumentRules) -> handle:\z
      moonwatch.Handle", [[From now on, tags each instance of the class when its
    constructor returns or when it is restored from data, and advances the
    clock. The handle restores the class. Plain classes, middleclass, classic
    and Penlight are known.]] },
  { class = "moonwatch.InstrumentRules", [[What `mw.instrument` wraps.]],
    { "constructors?: (string|function)[]", [[The constructors, by name or as
      functions; by default those of `new`, `__call`, `init`, `initialize` and
      `_init` that the class has.]] },
    { "restorers?: (string|function)[]", [[What restores an instance from data;
      by default `__setstate` and `from_data`.]] },
    { "clock?: moonwatch.Clock", [[The clock that tags; by default the default
      clock.]] } },
  { "mw.is_dynamic(obj: any, ctx?: table) -> value: any, reason: string",
    [[Returns the value of the first rule that decides about the object, and the
    name of that rule; false and `"default"` if none does.]] },
  { "mw.name_class<T: table>(name: string, class: T, rules?:\z
      moonwatch.NameRules) -> class: T", [[Gives a class the name by which
    bytes, policies and hierarchies know it, with the rules that a policy may
    have for it; where both say something, the policy counts. The class is held
    weakly: its name is free when the collector has taken it.]] },
  { class = "moonwatch.NameRules : moonwatch.ClassRules", [[The rules of
    `mw.name_class`.]],
    { "replace?: boolean", [[Takes the name from another class that has it;
      objects of that class are written under it.]] } },
},

{ page = "transactions", title = "Transactions and effects",
  { "mw.track<T: table|userdata>(obj: T, opts?: moonwatch.TrackOptions) -> \z
      obj: T", [[Lets transactions, histories, recorders and feeds record the
    writes to an object, which no guard has to watch.]] },
  { class = "moonwatch.TrackOptions", [[What is tracked.]],
    { "deep?: boolean", [[All that is below the object, too.]] },
    { "descend?: moonwatch.Descend", [[With `deep`: decides, instead of the
      policy, whether a table is included.]] } },
  { "mw.untrack(obj: any)", [[Ends `mw.track`, and drops what open transactions
    have recorded of the object.]] },
  { "mw.transaction(fn: function, ...: any) -> ok: boolean, effects:\z
      moonwatch.Effects, ...: any", [[Calls `fn(...)` and returns true, the
    effects of its writes and its results. If `fn` raises, all its writes are
    taken back, and false and the error come back. A label or options may come
    before the function. Transactions nest, and `fn` may yield.]],
    more = { "mw.transaction(opts: string|moonwatch.TransactionOptions, fn: \z
      function, ...: any) -> ok: boolean, effects: moonwatch.Effects, ...: \z
      any" } },
  { "mw.begin(opts?: string|moonwatch.TransactionOptions) -> tx:\z
      moonwatch.Transaction", [[Begins a transaction, for `local tx <close> =
    mw.begin()`. The argument is a label or options. Transactions may end in any
    order.]] },
  { class = "moonwatch.TransactionOptions", [[What a transaction records.]],
    { "label?: string", [[What people call it.]] },
    { "where?: boolean", [[Entries say the file and line of each write.]] },
    { "globals?: table", [[An environment whose fields are recorded.]] },
    { "reads?: boolean", [[Reads of what is tracked are recorded.]] } },
  { class = "moonwatch.Transaction", name = "tx", [[An open transaction, from
    `mw.begin`. Closed without an end, it rolls back.]],
    { "tx:commit() -> effects?: moonwatch.Effects, message?: string", [[Ends the
      transaction and keeps its writes.]] },
    { "tx:rollback() -> effects?: moonwatch.Effects, message?: string", [[Ends
      the transaction and takes its writes back.]] },
    { "tx:is_open() -> open: boolean", [[Tells whether the transaction has not
      ended.]] } },
  { class = "moonwatch.Effects", name = "effects", [[What a piece of code wrote,
    in the order of the program. `#effects` works. Effects keep their objects
    and values alive.]],
    { "effects:len() -> n: integer", [[Returns the number of entries.]] },
    { "effects:entries() -> next: fun(): moonwatch.Entry", [[Iterates over the
      entries.]] },
    { "effects:objects() -> objects: any[]", [[Returns the objects that were
      written, in the order of their first writes.]] },
    { "effects:reads() -> reads?: moonwatch.Read[]", [[Returns what was read, or
      nil if the transaction was not asked for reads.]] },
    { "effects:rollback() -> effects: moonwatch.Effects", [[Gives all fields the
      values from before, whatever they hold.]] },
    { "effects:apply(opts?: moonwatch.ApplyOptions) -> effects?:\z
        moonwatch.Effects, message?: string, entry?: moonwatch.Entry", [[Writes
      all entries again, if the fields hold what they held before the effects;
      else returns nil, a message and the entry, and nothing has changed. Tables
      get what was stored, without their class's `__newindex`.]] },
    { "effects:invert() -> effects: moonwatch.Effects", [[Returns effects that
      undo these.]] },
    { "effects:squash() -> effects: moonwatch.Effects", [[Returns the same
      change with at most one entry a field.]] },
    { "effects:concat(other: moonwatch.Effects) -> effects:\z
        moonwatch.Effects", [[Returns these effects followed by the others.]] },
    { "effects:conflicts(other: moonwatch.Effects) -> conflicts:\z
        moonwatch.Conflict[]", [[Returns the fields that both wrote, and
      differently, and those that one wrote and the other read, as far as the
      reads are known.]] },
    { "effects:only(root: table) -> effects?: moonwatch.Effects, message?:\z
        string", [[Returns the part of the effects below a root.]] },
    { "effects:to_lua(names: table<string, any>) -> source?: string, message?:\z
        string", [[Returns the source of a Lua program that performs the
      effects, where `names` has the objects that are globals there; all others
      are found by the way to them. For `mw.null` and the marks of documents,
      the text takes the global `mw`, else `require "moonwatch"`.]] },
    { "effects:to_bytes(root: table) -> bytes?: string, message?: string",
      [[Returns the effects as bytes, for `mw.patch_bytes` on a copy of what is
      below the root, elsewhere or later; nil and a message for what cannot be
      sent, or if a table has moved since that a path needs. Bytes name classes
      as `mw.name_class` does.]] },
    { "effects:to_patch(root: table) -> operations?: moonwatch.Operation[], \z
        message?: string", [[Returns the effects as a JSON patch, for
      `mw.patch`.]] } },
  { class = "moonwatch.ApplyOptions", [[How effects are applied.]],
    { "on_conflict?: fun(entry: moonwatch.Entry, actual: any):\z
        moonwatch.Decision", [[Decides about an entry whose field does not hold
      `old` any more.]] } },
  { alias = "moonwatch.Decision", [[What becomes of an entry in conflict.]],
    { "skip", "the entry is left out" },
    { "overwrite", "the entry is written" },
    { "abort", "nothing is written; also if the function returns nothing" } },
  { class = "moonwatch.Entry", [[One write.]],
    { "object?: any", [[The written object, or a cell; nil if it has died.]] },
    { "key: any", [[The field, or the name of a method that was called.]] },
    { "old: any", [[The value from before; of a call, the state.]] },
    { "new: any", [[The value after; of a call, the state.]] },
    { "kind: moonwatch.Kind", [[What sort of change it is.]] },
    { "where?: string", [[The file and line of the write.]] } },
  { class = "moonwatch.Read", [[One read.]],
    { "object: any", [[The object.]] },
    { "key?: any", [[The field; nil if all of the object was read.]] } },
  { class = "moonwatch.Conflict", [[One field about which effects do not
    agree.]],
    { "object: any", [[The object.]] },
    { "key: any", [[The field.]] },
    { "kind: \"write\"|\"read\"", [[Did both write the field, or has one read
      what the other wrote?]] },
    { "entry: moonwatch.Entry", [[The write.]] },
    { "other?: moonwatch.Entry", [[The write of the other effects.]] } },
},

{ page = "plans", title = "Plans",
  { "mw.plan(opts?: moonwatch.PlanOptions) -> fx: moonwatch.Plan",
    [[Returns a plan: writes that are made later, or never.]] },
  { class = "moonwatch.PlanOptions", [[What a plan allows.]],
    { "policy?: \"error\"|\"warn\"|\"silent\"", [[Within a scope, are writes to
      what was tracked outside refused (`"error"`), warned of, or allowed?]] },
    { "intercepted?: \"refuse\"", [[Objects whose class has `__newindex`, or a
      function as `__index`, cannot be tracked.]] },
    { "where?: boolean", [[Entries say where they were stored.]] } },
  { class = "moonwatch.Plan", name = "fx", [[Writes that are pending, from
    `mw.plan`. `fx == other` compares plans.]],
    { "fx:track<T: table|userdata>(obj: T) -> obj: T", [[Tracks an object, which
      may then be written to.]] },
    { "fx:track_new(class: table, ...: any) -> obj: any", [[Makes and tracks an
      instance without a constructor; `class:allocate(...)` makes it if there is
      such a method.]] },
    { "fx:track_cell(fn: function, i: integer) -> cell: moonwatch.Cell",
      [[Tracks an upvalue of a function.]] },
    { "fx:new_cell(value?: any) -> cell: moonwatch.Cell", [[Makes and tracks a
      new cell.]] },
    { "fx:track_global(env: table, name: string)", [[Tracks a field of an
      environment.]] },
    { "fx:contains(obj: any) -> tracked: boolean", [[Tells whether the object is
      tracked.]] },
    { "fx:store(obj: any, key: any, value: any)", [[Stores a value when the plan
      is applied.]] },
    { "fx:delete(obj: any, key: any)", [[Deletes a field when the plan is
      applied.]] },
    { "fx:load(obj: any, key: any) -> value: any, state: moonwatch.State",
      [[Returns the value that a field has or will have.]] },
    { "fx:store_cell(cell: moonwatch.Cell, value: any)", [[Stores a value in a
      cell when the plan is applied.]] },
    { "fx:load_cell(cell: moonwatch.Cell) -> value: any, state: \z
        moonwatch.State", [[Returns the value that a cell has or will have.]] },
    { "fx:store_global(name: string, value: any, env?: table)", [[Stores a
      global when the plan is applied. A name that is tracked in several
      environments needs `env`.]] },
    { "fx:load_global(name: string, env?: table) -> value: any, state: \z
        moonwatch.State", [[Returns the value that a global has or will
      have.]] },
    { "fx:mark(obj: any)", [[Marks an object as modified, without a store.]] },
    { "fx:is_modified(obj: any) -> modified: boolean", [[Tells whether the
      object will change; a new one does.]] },
    { "fx:has_pending(obj: any, key?: any) -> pending: boolean", [[Tells whether
      a write to the object, or to this field, is pending.]] },
    { "fx:modified() -> objects: any[]", [[Returns the objects that will change,
      in the order of tracking.]] },
    { "fx:is_empty() -> empty: boolean", [[Tells whether there is nothing to
      do.]] },
    { "fx:scope() -> scope: moonwatch.Scope", [[Until the scope is closed,
      writes to what was tracked before are refused.]] },
    { "fx:allow(obj: any)", [[Allows writes to an object in the innermost
      scope.]] },
    { "fx:save(ctx: any, ...: any)", [[Calls `ctx:save(...)` when the plan is
      applied.]] },
    { "fx:hook(obj: any, event: any, fn: function) -> hook: moonwatch.Hook",
      [[Registers a function for an event when the plan is applied, with
      `obj:on(event, fn)` or the policy's `register`.]] },
    { "fx:remove_hook(index: integer) -> found: boolean", [[Removes the hook of
      an index.]] },
    { "fx:finally(fn: function)", [[Calls `fn()` at the end of `apply`.]] },
    { "fx:prune(...: any) -> n: integer", [[Forgets the new objects that nothing
      leads to, neither the arguments nor the plan, and returns how many.]] },
    { "fx:adopt(other: moonwatch.Plan)", [[Tracks what the other plan
      tracks.]] },
    { "fx:clone() -> copy: moonwatch.Plan", [[Returns a copy that shares
      nothing.]] },
    { "fx:diff(other: moonwatch.Plan) -> difference?: string", [[Returns the
      first difference in words, or nil.]] },
    { "fx:clear()", [[Forgets everything.]] },
    { "fx:apply() -> effects?: moonwatch.Effects, message?: string, entry?: \z
        moonwatch.Entry", [[Does all or nothing: the saves, the hooks, the
      writes in the order of the program, the callbacks. If a transaction around
      it is taken back, the plan is there again, before what was added since,
      and its hooks are removed by their handles. What is stored while it writes
      is for the next time.]] },
    { "fx:to_lua(names: table<string, any>) -> source?: string, message?: \z
        string", [[Returns the source of a Lua program that does what `apply`
      would do; nil and a message if there are callbacks.]] } },
  { alias = "moonwatch.State", [[What a plan knows of a field.]],
    { "pending", "it will have the value" },
    { "real", "it has the value, and the plan does not write it" },
    { "deleted", "it will be deleted" },
    { "absent", "it is nil" } },
  { class = "moonwatch.Cell", name = "cell", [[An upvalue, as an object: two
    functions that share an upvalue have the same cell.]] },
  { class = "moonwatch.Hook", name = "hook", [[A hook of a plan, from
    `fx:hook`.]],
    { "hook.index: integer", [[Its number: 0, 1, 2 and so on, never given to
      another hook of the plan.]] },
    { "hook:remove()", [[Takes the hook back, and its registration if the plan
      was applied. A second call does nothing.]] },
    { "hook:cancel()", [[The same as `hook:remove()`.]] } },
  { class = "moonwatch.Scope", name = "scope", [[What lasts until it is closed,
    by hand or with `<close>`.]],
    { "scope:close()", [[Ends it. A second call does nothing.]] } },
},

{ page = "history", title = "History",
  { "mw.history(opts?: moonwatch.HistoryOptions) -> history:\z
      moonwatch.History", [[Returns an undo history.]] },
  { class = "moonwatch.HistoryOptions", [[How a history keeps steps.]],
    { "limit?: number", [[How many steps are kept; all by default.]] },
    { "merge_window?: number", [[The seconds after which runs are no longer
      merged; by default there is no limit.]] },
    { "on_step?: fun(effects: moonwatch.Effects, label: string, direction: \z
        \"run\"|\"undo\"|\"redo\")", [[Called after each run, undo and redo with
      the effects of what was just done: to save or send them. An error in it is
      raised by that call, when the step is done.]] },
    { "on_conflict?: fun(entry: moonwatch.Entry, actual: any):\z
        moonwatch.Decision", [[Decides, in an undo or redo, about a field that
      another writer has changed since, or about a list that is longer or
      shorter.]] } },
  { class = "moonwatch.History", name = "history", [[Steps that can be undone
    and done again. A history keeps the objects and values of its steps
    alive.]],
    { "history:run(label: string, fn: function, ...: any) -> ...: any", [[Calls
      `fn(...)` as a step and returns its results. An error takes its writes
      back and goes on. A run that changes nothing is no step, and a run in a
      run is part of it. If a transaction around it is taken back, its step goes
      too.]] },
    { "history:undo() -> label?: string, message?: string, entry?: \z
        moonwatch.Entry", [[Undoes the last step. Where another writer has
      changed a field since, or a list whose length the step changed (at or
      behind the first position that the step wrote), returns nil, a message and
      the entry, and nothing has changed.]] },
    { "history:redo() -> label?: string, message?: string, entry?: \z
        moonwatch.Entry", [[Does the last undone step again, as carefully.]] },
    { "history:can_undo() -> possible: boolean", [[Tells whether there is a step
      to undo.]] },
    { "history:can_redo() -> possible: boolean", [[Tells whether there is a step
      to do again.]] },
    { "history:labels() -> labels: string[]", [[Returns the labels of the steps
      that can be undone, the oldest first.]] },
    { "history:merge(label: string)", [[Makes one step of successive runs with
      this label, from now on, within `merge_window`; runs that cancel out are
      no step.]] },
    { "history:seal()", [[Makes the next run a step of its own.]] },
    { "history:mark_saved()", [[Says that the present state is saved.]] },
    { "history:is_saved() -> saved: boolean", [[Tells whether the present state
      is the saved one.]] } },
},

{ page = "recorder", title = "Recorder",
  { "mw.recorder(opts?: moonwatch.RecorderOptions) -> recorder: \z
      moonwatch.Recorder", [[Begins to record the writes to all that is watched
    or tracked, and keeps the last of them.]] },
  { class = "moonwatch.RecorderOptions", [[What a recorder keeps.]],
    { "capacity?: integer", [[The most entries; 65,536 by default.]] },
    { "seconds?: number", [[Entries that are much older may go.]] },
    { "where?: boolean", [[Entries say the file and line of each write.]] },
    { "scopes?: boolean", [[Entries say what executed: hierarchies' objects and
      measured scopes. On by default.]] },
    { "rolled_back?: boolean", [[Keeps what was taken back, too, up to the same
      capacity.]] } },
  { class = "moonwatch.Recorder", name = "recorder", [[The last writes, from
    `mw.recorder`. It keeps the objects and values of its entries alive.
    `#recorder` and `<close>` work; a recorder that is collected ends.]],
    { "recorder:entries(seq?: integer) -> next: fun(): \z
        moonwatch.RecorderEntry", [[Iterates over the entries, or those with the
      number `seq` and later. What was taken back stands where that
      happened.]] },
    { "recorder:why(obj: any, key: any) -> entry?: moonwatch.RecorderEntry",
      [[Returns the last write to a field, or nil; also one of a transaction
      that is open, and with `rolled_back` one that was taken back. What is
      there now has its last writer, though the entry is kept no more.]] },
    { "recorder:past(obj: table, seq: integer, opts?: \z
        moonwatch.PastOptions) -> contents?: table, message?: string",
      [[Returns what an object held after the entry with that number, as a
      plain table; nil and a message if not all entries since are kept, or the
      recorder has stopped.]] },
    { "recorder:len() -> n: integer", [[Returns the number of entries.]] },
    { "recorder:lost() -> n: integer", [[Returns how many entries were forgotten
      because there was no room.]] },
    { "recorder:stop()", [[Ends the recording; the entries stay. A second call
      does nothing.]] } },
  { class = "moonwatch.PastOptions", [[What comes from the past.]],
    { "deep?: boolean", [[The tables below as well, with the same sharing;
      without it, they are those of now.]] } },
  { class = "moonwatch.RecorderEntry : moonwatch.Entry", [[One write, as readers
    get it. `tostring(entry)` is a sentence, with a line for each cause.]],
    { "seq?: integer", [[Its number: ascending, without gaps; nil of what is not
      committed or was taken back.]] },
    { "epoch?: integer", [[The generation of the default clock.]] },
    { "transaction?: string|integer", [[The label, or number, of the outermost
      transaction.]] },
    { "origin?: string", [[Who wrote: see `mw.origin`.]] },
    { "scope?: string[]", [[What executed, the outermost first.]] },
    { "because?: integer", [[The number of the write because of which this one
      was made: its guard or memo did it, or it was undone.]] },
    { "open?: boolean", [[True if the transaction is open.]] },
    { "rolled_back?: boolean", [[True if it was taken back.]] } },
  { "mw.why(obj: any, key: any) -> entry?: moonwatch.RecorderEntry, message?: \z
      string", [[Asks the running recorder that was made last: see
    `recorder:why`. Returns nil and a message if there is none, or if the object
    is neither watched nor tracked.]] },
  { "mw.origin(name: string, fn: function, ...: any) -> ...: any", [[Calls
    `fn(...)` and returns its results; what it writes has this origin: a player,
    the network, a script. The innermost origin counts. A coroutine without
    an origin has that of the coroutine that waits for it. Without a function,
    returns the origin for a block: `local _ <close> = mw.origin(name)`.]],
    more = { "mw.origin(name: string) -> origin: moonwatch.Origin" } },
  { class = "moonwatch.Origin", name = "origin", [[Who writes, from `mw.origin`
    without a function.]],
    { "origin:close()", [[Ends the origin. A second call does nothing.]] } },
  { "mw.current_origin() -> name?: string", [[Returns the origin that a write
    would have now, so that a check can ask who writes; nil if there is
    none.]] },
},

{ page = "documents", title = "Documents",
  { "mw.patch(root: table, operations: moonwatch.Operation[]) -> root?: any, \z
      message?: string, index?: integer", [[Performs a JSON patch (RFC 6902),
    all operations or none; an operation on `""` makes another root. If an
    operation fails, returns nil, a message and its index. An operation costs
    its path, not the tables on it. A table in two places is changed once, and
    refused if operations come to it by both. A patch writes into no class.]] },
  { class = "moonwatch.Operation", [[One operation of a JSON patch.]],
    { "op: \"add\"|\"remove\"|\"replace\"|\"move\"|\"copy\"|\"test\"", [[What it
      does.]] },
    { "path: string", [[A JSON pointer, such as `"/items/0"`.]] },
    { "from?: string", [[The source, of `"move"` and `"copy"`.]] },
    { "value?: any", [[The value, of `"add"`, `"replace"` and `"test"`.]] } },
  { "mw.diff(a: any, b: any) -> operations?: moonwatch.Operation[], \z
      message?: string", [[Returns the operations that make `a` equal to `b`;
    nil and a message for what JSON cannot say: functions, NaN, cycles, strings
    that are not UTF-8, tables with keys of both kinds. The order is fixed. Of a
    list there are inserts and removes, but no more than it takes to replace
    what differs.]] },
  { "mw.patch_bytes(root: table, bytes: string) -> root?: table, message?: \z
      string", [[Performs effects that came as bytes, from `effects:to_bytes`.
    Damaged bytes change nothing; no bytes write into a class or set another
    metatable than that of a named class. A new object is made by the rule
    `new`, else by `class:allocate()`, else with the metatable alone. If the
    root is not tracked deeply, all below is walked once for classes.]] },
  { "mw.array<T: table>(t: T) -> t: T", [[Marks a table as JSON's array. Without
    a mark, an empty table is either, and the keys of others decide.]] },
  { "mw.object_like<T: table>(t: T) -> t: T", [[Marks a table as JSON's
    object.]] },
  { "mw.null: lightuserdata", [[JSON's null: the light userdata that lua-cjson
    has.]] },
},

{ page = "snapshots", title = "Snapshots",
  { "mw.snapshot(root: table, opts?: moonwatch.SnapshotOptions) -> bytes?: \z
      string, seq: integer|string", [[Returns the state below a root as bytes,
    and the number of the last entry that was delivered; nil and a message for
    what bytes cannot say, with the way to it. The same state gives the same
    bytes. Of fields that open transactions have written, the values from before
    count.]] },
  { class = "moonwatch.SnapshotOptions", [[What is in a snapshot.]],
    { "descend?: moonwatch.Descend", [[Decides, instead of the policy, whether a
      table is included.]] } },
  { "mw.restore(bytes: string, opts?: moonwatch.RestoreOptions) -> root?: \z
      table, message?: string", [[Makes the state of a snapshot, as new objects.
    Bytes that are damaged, or that name an unknown class, are nil and a
    message, and nothing has changed.]] },
  { class = "moonwatch.RestoreOptions", [[Where the state goes.]],
    { "into?: table", [[A live root, which gets the state in one transaction
      that changes what differs and keeps the objects that are the same by their
      way and kind.]] } },
  { "mw.hash(root: table) -> hash?: integer, message?: string", [[Returns a hash
    of the state below a root that a snapshot would have: of content, not of
    identity, and the same on every machine. Two hashes are equal exactly when
    the snapshots are. What a snapshot refuses is nil and its message.]] },
},

{ page = "feeds", title = "Feeds",
  { "mw.feed(opts?: moonwatch.FeedOptions) -> feed?: moonwatch.Feed, \z
      message?: string", [[Returns a feed, which gives what changes from now on;
    with `since`, nil and a message if not all entries since are kept, or if
    no feed of this root and `descend` has been open since.]] },
  { class = "moonwatch.FeedOptions", [[What a feed gives, and how much it
    keeps.]],
    { "root?: table", [[Only what is below this table, which the feed tracks
      deeply until it is closed, if it is not tracked already. By default, all
      that is tracked or watched.]] },
    { "descend?: fun(parent: table, key: any, child: table): any", [[Says which
      tables are below the root; by default, the function with which the root
      is tracked, or the policy's.]] },
    { "capacity?: integer", [[The most entries that wait for a look; 65,536 by
      default.]] },
    { "not_from?: string", [[The origin whose writes are left out: see
      `mw.origin`.]] },
    { "since?: integer", [[The number of the entry after which the feed begins:
      the second result of `mw.snapshot`, or of `feed:seq()`.]] } },
  { class = "moonwatch.Feed", name = "feed", [[Gives what changed since its last
    look.]],
    { "feed:read() -> next: fun(): moonwatch.RecorderEntry", [[Looks: returns an
      iterator of the entries since the last look, in their order. Below a root,
      those of objects that were there at the last look, or are there now.]] },
    { "feed:changes() -> next: fun(): (any, any, any, any, \z
        moonwatch.Kind|\"attach\"|\"detach\"|\"class\", string?)", [[Looks:
      returns an iterator of object, key, old and new value of each field that
      has changed since the last look, and the kind of change: `"attach"` if
      the new value is a table of which all fields follow, with the table's
      mark; `"detach"` of a table that is below the root no more; `"class"`
      with the old and the new metatable.]] },
    { "feed:lost() -> n: integer", [[Returns how many entries were forgotten
      because there was no room, in all.]] },
    { "feed:seq() -> seq: integer", [[Returns the number of the last entry that
      was looked at.]] },
    { "feed:pending() -> n: integer", [[Returns how many entries wait for the
      next look, of the root or not.]] },
    { "feed:close()", [[Ends the feed. Also done by `<close>`, and when the feed
      is collected.]] } },
},
{ page = "replay", title = "Replay",
  { "mw.check_replay(root: table, step: function, opts?: \z
      moonwatch.ReplayOptions) -> same: boolean, report?: \z
      moonwatch.Difference", [[Calls `step()` for some frames, takes their
    writes back, calls it again as often, and compares the writes of both
    passes: returns true; or false and the first write that differs. The root is
    then as after the first pass. An error of `step` is raised, with the root as
    it was.]] },
  { class = "moonwatch.ReplayOptions", [[How frames are run again.]],
    { "frames?: integer", [[How many; 8 by default.]] },
    { "before?: fun()", [[Called once before each of the two passes, to set
      seeds and clocks.]] } },
  { class = "moonwatch.Difference", [[The first write in which two passes
    differ; `tostring` gives it in words.]],
    { "frame: integer", [[The number of the frame, from 1.]] },
    { "object: any", [[The object that was written, of the first pass.]] },
    { "path?: any[]", [[The keys that lead from the root to the object.]] },
    { "key: any", [[The field; nil if the object got another class.]] },
    { "first: any", [[The new value in the first pass.]] },
    { "second: any", [[The new value in the second pass.]] },
    { "where?: string", [[Where in the program, as `file:line`: in the first
      pass if it made the write.]] },
    { "second_where?: string", [[Where in the second pass.]] },
    { "because?: moonwatch.Cause", [[The write whose guard made it, in the same
      pass as `where`.]] } },
  { class = "moonwatch.Cause", [[A write that was the cause of another one.]],
    { "object: any", [[The object that was written.]] },
    { "path?: any[]", [[The keys that lead from the root to the object.]] },
    { "key: any", [[The field.]] },
    { "old: any", [[The value before.]] },
    { "new: any", [[The value after.]] },
    { "where?: string", [[Where in the program, as `file:line`.]] },
    { "because?: moonwatch.Cause", [[The cause of this write.]] } },
},

{ page = "hierarchy", title = "Hierarchy",
  { "mw.hierarchy(opts?: moonwatch.HierarchyOptions) -> h:\z
      moonwatch.Hierarchy", [[Returns a hierarchy: what is executing, and under
    which name. Each coroutine has its own stack.]] },
  { class = "moonwatch.HierarchyOptions", [[How objects are found and named.]],
    { "root?: string", [[The name that is always among `h:parents()`; `"Global"`
      by default.]] },
    { "children?: fun(obj: any): any, any, any", [[Returns a table, or an
      iterator, of the keys and children of an object. By default, children are
      the fields, also in plain tables, that hold objects of an instrumented
      class or with a method in the policy's `entries`.]] },
    { "name?: fun(parent_name: string, key: any, child: any): string?", [[What a
      child is called; with nil, as without the function.]] },
    { "class_name?: fun(obj: any): string?", [[What a root is called.]] } },
  { class = "moonwatch.Hierarchy", name = "h", [[Stacks of objects that execute,
    with names, from `mw.hierarchy`.]],
    { "h:enter(obj: moonwatch.Object) -> name: string", [[Puts an object on the
      stack of the running coroutine. The first time, what is below the object
      is looked through once.]] },
    { "h:leave(obj: moonwatch.Object)", [[Takes an object off the stack, with
      all that it has entered.]] },
    { "h:scope(obj: moonwatch.Object) -> scope: moonwatch.Scope", [[Enters an
      object until the scope is closed.]] },
    { "h:instrument(class: table, methods: string[]) -> handle: \z
        moonwatch.Handle", [[Makes calls of these methods enter and leave their
      object, also on errors. Such a call is no tail call any more. A self that
      is no object (a number, `mw.null`) is not entered.]] },
    { "h:current() -> name?: string, obj?: any, depth?: integer", [[Returns what
      executes, or nothing.]] },
    { "h:path() -> names: string[]", [[Returns the names on the stack, the
      outermost first.]] },
    { "h:parents() -> set: table<string, boolean>", [[Returns the same names as
      a set, with the root's name.]] },
    { "h:name_of(obj: any) -> name?: string", [[Returns the name of an
      object.]] },
    { "h:object(name: any) -> obj?: any", [[Returns the live object of a
      name.]] },
    { "h:key_path(obj: any) -> keys?: any[]", [[Returns the keys from the root
      to an object.]] },
    { "h:names() -> names: string[]", [[Returns the names of all live objects,
      sorted.]] },
    { "h:on(class: table, events: moonwatch.HierarchyEvents) -> handle: \z
        moonwatch.Handle", [[Calls functions when objects of a class, not of its
      subclasses, are entered and left; without a class, for all objects. Their
      errors go to `mw.on_error`, else the first is raised when all were
      called.]],
      more = { "h:on(events: moonwatch.HierarchyEvents) -> handle: \z
        moonwatch.Handle" } },
    { "h:record(on?: boolean|moonwatch.RecordOptions)", [[Begins to tape what is
      left; with false, ends that and forgets the tape.]] },
    { "h:backward(fn: fun(obj: any, name: string))", [[Visits what is on the
      tape, the last first, under the names from then, and empties the
      tape.]] },
    { "h:is_reverse() -> reverse: boolean", [[Tells whether the running
      coroutine is in `h:backward`.]] },
    { "h:reset()", [[Empties the stacks and the tape; names stay.]] },
    { "h:close()", [[Takes all instrumentation and all hooks away.]] } },
  { class = "moonwatch.RecordOptions", [[What `h:record` tapes.]],
    { "only?: fun(obj: any): any", [[Takes the object part in the tape? Asked
      when it is entered.]] } },
  { class = "moonwatch.HierarchyEvents", [[The functions of `h:on`.]],
    { "enter?: fun(obj: any, name: string)", [[An object was entered.]] },
    { "leave?: fun(obj: any, name: string)", [[An object is left.]] },
    { "reverse_enter?: fun(obj: any, name: string)", [[An object is visited in
      reverse.]] },
    { "reverse_leave?: fun(obj: any, name: string)", [[That visit ends.]] },
    { "confused?: fun(message: string, name: string, phase: \z
        \"forward\"|\"reverse\")", [[An object was left that had not been
      entered.]] } },
},

{ page = "dynamism", title = "Dynamism",
  { "mw.dynamism(examples?: any[], opts?: moonwatch.DynamismOptions) -> \z
      report: moonwatch.Report", [[Returns a report of what varies between
    examples, which are tables.]] },
  { class = "moonwatch.DynamismOptions", [[How examples are read.]],
    { "shape?: fun(value: any): integer[]?", [[Returns the sizes of a value that
      has a shape; by default the field `shape`.]] },
    { "objects?: fun(value: any): any", [[Is the value an object that
      `mw.to_nested` opens?]] },
    { "keep?: integer", [[How many values are remembered a path and kind;
      16.]] },
    { "confidence?: integer", [[The least number of examples that make a
      constant; 1.]] } },
  { class = "moonwatch.Report", name = "report", [[What is known of examples,
    from `mw.dynamism`.]],
    { "report:add(example: any) -> report: moonwatch.Report", [[Adds an
      example.]] },
    { "report:merge(other: moonwatch.Report) -> report: moonwatch.Report",
      [[Adds all that another report knows.]] },
    { "report:examples() -> n: integer", [[Returns the number of examples.]] },
    { "report:dims() -> dims: table<any, table<string, boolean[]>>", [[Returns
      which dimensions had more than one value: the top key, then the path, then
      an array of booleans.]] },
    { "report:changes() -> changes: table<string, moonwatch.Change>", [[Returns
      all that is known, by path.]] } },
  { class = "moonwatch.Change", [[What is known of one path.]],
    { "keys: any[]", [[The path as an array of keys.]] },
    { "verdict: \"constant\"|\"varying\"|\"unsure\"", [[What it is.]] },
    { "varies: table<string, boolean>", [[The set of what varies: `value`,
      `kind`, `presence`, `length`, `rank`.]] },
    { "examples: integer", [[How often there was a value.]] },
    { "missing: integer", [[How often there was none.]] },
    { "kinds: table<string, integer>", [[How often each kind of value was
      there.]] },
    { "distinct: integer|\"many\"", [[The number of different scalars.]] },
    { "values: any[]", [[The scalars, in order.]] },
    { "min?: number", [[The least number.]] },
    { "max?: number", [[The greatest number.]] },
    { "length?: { min: integer, max: integer }", [[The lengths of tables and
      strings.]] },
    { "ranks?: integer[]", [[The ranks of shaped values.]] },
    { "dims?: moonwatch.Change[]", [[The dimensions of shaped values.]] } },
  { "mw.infer(examples: any[]|moonwatch.Report, opts?: \z
      moonwatch.InferOptions) -> spec: moonwatch.Specialisation", [[Returns what
    the examples have in common, to test other examples.]] },
  { class = "moonwatch.InferOptions : moonwatch.DynamismOptions", [[How examples
    are read, and what is accepted.]],
    { "exact?: boolean", [[Refuses fields that no example had.]] } },
  { class = "moonwatch.Specialisation", name = "spec", [[What examples have in
    common, from `mw.infer`.]],
    { "spec:matches(example: any) -> same: boolean, path?: string", [[Tells
      whether constants are the same, numbers in their range, and kinds, lengths
      and shapes those that there were; if not, the first path that
      differs.]] },
    { "spec:constants() -> constants: table<string, any>", [[Returns the values
      that are always the same, by path.]] },
    { "spec:varying() -> places: table<string, moonwatch.Place>", [[Returns the
      other places, by path.]] },
    { "spec:to_lua() -> source?: string, message?: string", [[Returns the source
      of a function that does what `matches` does, without the library.]] } },
  { class = "moonwatch.Place", [[What values a place may have.]],
    { "kinds: string[]", [[The kinds of values.]] },
    { "min?: number", [[The least number.]] },
    { "max?: number", [[The greatest number.]] },
    { "length?: { min: integer, max: integer }", [[The lengths of tables.]] },
    { "dims?: moonwatch.Place[]", [[The dimensions of shaped values.]] },
    { "optional?: boolean", [[May the value be missing?]] } },
  { "mw.to_nested(obj: any, opts?: moonwatch.NestedOptions) -> nested: table",
    [[Returns what an object has as a table: `_parameters` (what has a shape),
    `_modules` (objects below) and public numbers; what cannot be read is left
    out.]] },
  { class = "moonwatch.NestedOptions", [[How an object is opened.]],
    { "shape?: fun(value: any): integer[]?", [[As in
      `moonwatch.DynamismOptions`.]] },
    { "objects?: fun(value: any): any", [[Is the value an object? By default a
      table with a metatable is.]] } },
  { "mw.skeleton(value: any, opts?: moonwatch.SkeletonOptions) -> copy: any",
    [[Returns a copy in which `{ meta = true, shape = sizes }` stands for what
    has a shape.]] },
  { class = "moonwatch.SkeletonOptions", [[How shapes are found.]],
    { "shape?: fun(value: any): integer[]?", [[As in
      `moonwatch.DynamismOptions`.]] } },
  { "mw.normalize_name(name: string) -> path: string", [[Returns a path as
    reports write it: `L.x[1].y` becomes `L['x'][1]['y']`.]] },
},

{ page = "traces", title = "Traces",
  { "mw.timed(name: string, opts?: moonwatch.TimedOptions) -> scope: \z
      moonwatch.TimedScope", [[Opens a scope that is measured while a trace
    runs, while `mw.timing` is on, or because it has a column: for `local _
    <close> = mw.timed "draw"`.]] },
  { class = "moonwatch.TimedOptions", [[What is known of a scope.]],
    { "category?: string", [[The category in the trace.]] },
    { "args?: table", [[Data that are copied into the trace.]] },
    { "column?: string", [[A name that ends in `_us`: the scope is measured in
      any case, and its microseconds are added to the metrics that are
      entered.]] },
    { "reverse?: boolean", [[Says that the scope belongs to a reverse
      pass.]] } },
  { class = "moonwatch.TimedScope : moonwatch.Scope", name = "timed", [[A
    measured scope, from `mw.timed`. Its data go into a trace, if one runs.]],
    { "timed:add(key: any, value: any)", [[Sets one of the scope's data.]] },
    { "timed:increment(key: any, n?: number)", [[Adds `n`, or 1, to one of the
      scope's data.]] },
    { "timed:insert(key: any, member: any)", [[Adds a member to a set among the
      scope's data.]] },
    { "timed:close()", [[Ends the scope. A second call does nothing.]] } },
  { "mw.current_scope(name?: string) -> scope?: moonwatch.TimedScope", [[Returns
    the innermost scope of the running coroutine, or the innermost of that name,
    that is open and measured; nil if there is none. So code deep inside can add
    to what it runs in.]] },
  { "mw.outermost_scope() -> scope?: moonwatch.TimedScope", [[Returns the
    outermost such scope of the running coroutine, or nil.]] },
  { "mw.instant(name: string, args?: table)", [[Writes a moment into the
    trace.]] },
  { "mw.counter(name: string, value: number)", [[Writes a value into the
    trace.]] },
  { "mw.trace(opts?: moonwatch.TraceOptions) -> trace: moonwatch.Trace",
    [[Returns a trace, which begins with `trace:start()`. One trace runs at a
    time.]] },
  { class = "moonwatch.TraceOptions", [[What a trace keeps.]],
    { "capacity?: integer", [[How many events are kept, the last ones; 262,144
      by default.]] },
    { "sources?: moonwatch.Source[]", [[What is traced beside scopes.]] },
    { "where?: boolean", [[Says that a traced write has its place in the
      program.]] } },
  { alias = "moonwatch.Source", [[What a trace can trace by itself.]],
    { "watch", [[each write to what is watched or tracked, with the values
      before and after, and how many guards were called]] },
    { "epoch", "clocks that advance" },
    { "transaction", "transactions" },
    { "hierarchy", "the objects that execute" } },
  { class = "moonwatch.Trace", name = "trace", [[A ring of events, from
    `mw.trace`.]],
    { "trace:start() -> trace: moonwatch.Trace", [[Begins to trace.]] },
    { "trace:stop() -> trace: moonwatch.Trace", [[Ends the trace.]] },
    { "trace:clear() -> trace: moonwatch.Trace", [[Forgets all events.]] },
    { "trace:len() -> n: integer", [[Returns how many events are kept.]] },
    { "trace:lost() -> n: integer", [[Returns how many events were lost.]] },
    { "trace:write(path: string, format?: moonwatch.TraceFormat) -> ok?: \z
        boolean, message?: string", [[Writes a file; if that fails, returns nil
      and a message.]] } },
  { alias = "moonwatch.TraceFormat", [[What a trace is written as.]],
    { "chrome", "trace events, which Perfetto opens; the default" },
    { "speedscope", "a profile for speedscope" },
    { "html", "a page that can be opened anywhere" } },
  { "mw.timing(on: boolean) -> former: boolean", [[Says whether all scopes are
    measured, and returns whether they were.]] },
  { "mw.times(format?: \"text\"|\"csv\"|\"table\", aggregate?: boolean) -> \z
      times: any", [[Returns the durations of the measured scopes in seconds:
    the last 1,024 of each name, or count, sum, min and max of all.]] },
  { "mw.time_spent() -> seconds: table<string, number>", [[Returns the seconds
    that scopes with a column took, by name, and their `total`. Where they are
    nested, the outermost counts; the time in which a coroutine is suspended
    does not.]] },
  { "mw.reset_times()", [[Forgets all durations.]] },
  { "mw.counters: table<any, table<any, number>>", [[Numbers by section and
    name: `mw.counters[section][name]` is 0 before the first count. A program
    may set a counter, or a section to a table of counters or nil.]] },
  { "mw.count(section: any, name: any, n?: number) -> value: number", [[Adds
    `n`, or 1, to a counter and returns its value.]] },
  { "mw.counted(section: any) -> total: number", [[Returns the total of a
    section.]] },
  { "mw.reset_counters()", [[Forgets all counters.]] },
  { "mw.report_at_exit(path: string) -> handle: moonwatch.Written", [[Writes
    times, counters and metrics of the whole program to a file when the Lua
    state closes: as text, or as JSON if the name of the file ends so.]] },
  { class = "moonwatch.Written", name = "written", [[A report that will be
    written, from `mw.report_at_exit`.]],
    { "written:cancel()", [[Writes no report.]] } },
  { "mw.metrics: moonwatch.MakeMetrics", [[Is called for a context that collects
    numbers until its outermost exit: `mw.metrics()`.]] },
  { class = "moonwatch.MakeMetrics", name = "mw.metrics",
    call = "(opts?: moonwatch.OnExit|moonwatch.MetricsOptions): \z
      moonwatch.Metrics",
    [[What `mw.metrics` is.]],
    { "mw.metrics.current() -> metrics?: moonwatch.Metrics", [[Returns the
      context that was entered last among those that are entered, or nil.]] } },
  { class = "moonwatch.MetricsOptions", [[Options of `mw.metrics`.]],
    { "on_exit?: moonwatch.OnExit", [[Is called with the report.]] },
    { "schema?: table<string, string>", [[The metrics that there are, and the
      type of each: "integer", "float", "number", "string", "boolean", "table",
      "set" or "list".]] } },
  { alias = "moonwatch.OnExit", [[Called once, at the outermost exit.]],
    "fun(start_ns: integer, end_ns: integer, values: table, err: any)" },
  { class = "moonwatch.Metrics", name = "metrics", [[A context, from
    `mw.metrics`; it can be closed with `<close>`.]],
    { "metrics:enter() -> metrics: moonwatch.Metrics", [[Enters the context,
      which may be entered already.]] },
    { "metrics:leave(err?: any)", [[Leaves the context.]] },
    { "metrics:in_progress() -> entered: boolean", [[Tells whether the context
      is entered.]] },
    { "metrics:to_json() -> text: string", [[Returns the metrics as a JSON
      object: those of now, or of the last report. A key that is a number or a
      boolean is its text.]] },
    { "metrics:increment(name: string, n?: number)", [[Adds `n`, or 1, to a
      metric.]] },
    { "metrics:set(name: string, value: any, overwrite?: boolean)", [[Sets a
      metric; a second time only with `overwrite`.]] },
    { "metrics:update(values: table<string, any>, overwrite?: boolean)", [[Sets
      several metrics, all or none.]] },
    { "metrics:set_key(name: string, key: any, value: any)", [[Sets a field of a
      metric that is a table.]] },
    { "metrics:add_to_set(name: string, member: any)", [[Adds a member to a
      metric that is a set.]] },
    { "metrics:top_n(name: string, key: any, value: number, n: integer)",
      [[Keeps the `n` keys with the largest values.]] } },
  { "mw.frame() -> n: integer", [[Returns the number of the frame.]] },
  { "mw.advance_frame() -> n: integer", [[Begins the next frame and returns its
    number.]] },
  { "mw.reset_frames()", [[Goes back to frame 0.]] },
},

{ page = "costs", title = "Costs",
  { "mw.memory() -> memory: moonwatch.Memory", [[Returns the bytes that the
    library has allocated beside what Lua counts.]] },
  { class = "moonwatch.Memory", [[Bytes by part.]],
    { "objects: integer", [[Identities, tags of clocks, records of objects.]] },
    { "watches: integer", [[Watches, and what is below what.]] },
    { "journal: integer", [[What transactions and readers have recorded.]] },
    { "names: integer", [[Hierarchies: stacks, names and tapes.]] },
    { "traces: integer", [[The events and texts of traces.]] },
    { "total: integer", [[The sum.]] } },
},

{ page = "small", title = "Small things",
  { "mw.once(max?: integer) -> seen: moonwatch.Seen", [[Returns a set that is
    called with a key: `seen(key)` is true the first time. Of more than `max`
    keys (4096), the set forgets the key that it was asked for the longest time
    ago.]] },
  { class = "moonwatch.Seen", name = "seen",
    call = "(key: any): boolean",
    [[A set of keys that were seen, from `mw.once`; it keeps no object alive.
    `#seen` works.]],
    { "seen:len() -> n: integer", [[Returns the number of keys that the set
      knows.]] },
    { "seen:clear()", [[Forgets all keys.]] } },
  { "mw.cleanup(scope: table, name: any, value: any) -> handle:\z
      moonwatch.Cleanup", [[Sets `scope[name]`, which must be nil, to `value`,
    until the handle runs.]] },
  { "mw.cleanup_for(owner: moonwatch.Object, handle: moonwatch.Cleanup) \z
      -> handle: moonwatch.Cleanup", [[Runs the handle when `owner` has
    died.]] },
  { class = "moonwatch.Cleanup", name = "cleanup", [[A field that is set for a
    while, from `mw.cleanup`; it can be closed with `<close>`.]],
    { "cleanup:run()", [[Deletes the field, unless the program has set it to
      another value. A second call does nothing.]] },
    { "cleanup:cancel()", [[The same as `cleanup:run()`.]] },
    { "cleanup:alive() -> alive: boolean", [[Tells whether the handle has not
      run yet.]] },
    { "cleanup:pending() -> n: integer", [[Returns how many handles of
      `mw.cleanup` have not run yet.]] } },
  { "mw.context(fn: fun(): string?) -> handle: moonwatch.Handle", [[Asks `fn()`
    for a text, cut to 256 characters, when a write that is traced calls
    guards.]] },
},

}
