---@meta moonwatch

-- The types of moonwatch, for the Lua language server.  This file is made from
-- docs/reference.lua by `make reference`.

---Tracking for programs with Lua inside.
---@class moonwatch
---@field version string The version of the library.
---@field _VERSION string The name and the version of the library.
---@field any lightuserdata Any one key, in the option `path`.
---@field null lightuserdata JSON's null: the light userdata that lua-cjson has.
---@field counters table<any, table<any, number>> Numbers by section and name: `mw.counters[section][name]` is 0 before the first count. A program may set a counter, or a section to a table of counters or nil.
---@field metrics moonwatch.MakeMetrics Is called for a context that collects numbers until its outermost exit: `mw.metrics()`.
local mw = {}

---What has an identity: a table, a full userdata, a function or a thread.
---@alias moonwatch.Object table|userdata|function|thread

---A table with weak keys, from `mw.weakmap`. A value that refers to its key
---does not keep the key. `#map` and `pairs(map)` work.
---@class moonwatch.WeakMap
local map = {}

---Stores a value; nil removes the entry.
---@param key moonwatch.Object
---@param value any
function map:set(key, value) end

---Returns the value of a key, or `default`.
---@param key any
---@param default? any
---@return any value
function map:get(key, default) end

---Tells whether there is an entry for the key.
---@param key any
---@return boolean found
function map:has(key) end

---Removes an entry and returns its value.
---@param key any
---@return any old
function map:remove(key) end

---Removes all entries.
function map:clear() end

---Returns the number of entries whose keys are alive. After a collection it is
---counted anew.
---@return integer n
function map:len() end

---Iterates over the entries that are there from start to end, each once; the
---loop may add, remove and collect.
---@return (fun(...: any): any, any) next
---@return any state
---@return any first
function map:pairs() end

---A clock counts generations and tags objects with them.
---@class moonwatch.Clock
local clock = {}

---Returns the current generation.
---@return integer generation
function clock:now() end

---Begins the next generation and returns its number.
---@return integer generation
function clock:advance() end

---Tags an object with the current generation, in place of an earlier one.
---@generic T: moonwatch.Object
---@param obj T
---@return T obj
function clock:tag(obj) end

---Returns the generation of an object, or -1 if the clock never tagged the
---object.
---@param obj any
---@return integer generation
function clock:generation(obj) end

---Tells whether the object was tagged in the current generation.
---@param obj any
---@return boolean current
function clock:is_current(obj) end

---Iterates over the live objects that were tagged in this generation or later,
---with their generations. It passes over older ones 256 at a time.
---@param generation integer
---@return fun(): (any, integer) next
function clock:since(generation) end

---Goes back to generation 0 and forgets all tags.
function clock:reset() end

---Which writes fire a watch, and when.
---@class moonwatch.WatchOptions
---@field once? boolean Does the watch end with the first write that fires it? By default true for a guard with a method `invalidate`, else false.
---@field key? any Only writes to this field.
---@field keys? any[] Only writes to these fields.
---@field phase? moonwatch.Phase When the guard is called; `"before"` by default.
---@field equal? "fire"|"skip" With `"skip"`, not for a write of the same value; `"fire"` by default.
---@field when? moonwatch.GuardFunction Gets the arguments of the guard, but of a deep watch the written object and its key; the guard is called only if this function returns true.
---@field existing? boolean Calls the guard at once for each field that is there, with the kind `"existing"`.
---@field deep? boolean For writes to anything below the object, too: the guard gets the path, an array of keys, in place of the key, and the written object after the kind. Classes are no contents: a table that is the class, or the `__index`, of something below is not entered, nor are named classes and the tables of Lua itself.
---@field descend? moonwatch.Descend Of a deep watch: decides, instead of the policy, whether a table is included. Asked when a field comes to hold a table that is not below that parent yet.
---@field path? any[] A deep watch of this way only, such as `{ "enemies", mw.any, "hp" }`: of writes to the fields on the way and at its end. With `equal = "skip"`, a table that is replaced on the way counts only if values at the end differ. Excludes `key` and `keys`.

---When a guard is called.
---@alias moonwatch.Phase
---| "before" # before the value is stored
---| "after" # after the value is stored
---| "check" # before the write counts; an error refuses the write, and `return true, value` stores that value instead; no other guard is called for a write that a check refuses

---What sort of change it is.
---@alias moonwatch.Kind
---| "insert" # the field was absent before
---| "update" # the field had another value, or the same
---| "delete" # the new value is nil
---| "call" # a call of a method that a policy names as a mutator
---| "raw" # a write that went past the library, found by `mw.sync`; or that of `mw.see_through`'s `rawset`
---| "metatable" # the object has another metatable
---| "rollback" # a write was taken back
---| "apply" # effects were applied
---| "touch" # said by hand, with `mw.touch`
---| "existing" # the field was there when the watch began

---A guard that is a function. With `phase = "check"` it may return true and
---another value.
---@alias moonwatch.GuardFunction fun(obj: any, key: any, old: any, new: any, kind: moonwatch.Kind, written: any): boolean?, any

---What can be a guard.
---@alias moonwatch.Guards moonwatch.GuardFunction|moonwatch.Guard|moonwatch.GuardObject

---An object that is a guard.
---@class moonwatch.GuardObject
---@field invalidate fun(self: any, obj: any, key: any, old: any, new: any, kind: moonwatch.Kind, written: any) Called for each write.

---Decides whether a deep watch or track goes down to a table.
---@alias moonwatch.Descend fun(parent: any, key: any, child: any): any

---What a subscription is; it can be closed with `<close>`.
---@class moonwatch.Handle
local handle = {}

---Ends it. A second call does nothing.
function handle:cancel() end

---The handle of `mw.watch`.
---@class moonwatch.Watch : moonwatch.Handle
local watch = {}

---Ends the watch. A second call does nothing.
function watch:cancel() end

---Tells whether the watch can still fire.
---@return boolean alive
function watch:alive() end

---A bit, from `mw.guard`.
---@class moonwatch.Guard
---@field valid boolean True until the first write to what the guard watches. `revalidate` sets it again.
local guard = {}

---Makes the guard valid again.
function guard:revalidate() end

---A batch for a block, from `mw.batch()`.
---@class moonwatch.Batch
local batch = {}

---Ends the batch. A second call does nothing.
function batch:close() end

---The results of a function, from `mw.memo`. Calls have no arguments.
---@class moonwatch.Memo
---@overload fun(): any
local memo = {}

---Tells whether the results are up to date.
---@return boolean valid
function memo:valid() end

---Makes the results out of date.
function memo:invalidate() end

---Lets the results depend on less, or on more, than all fields of one object.
---@param obj table|userdata
---@param opts? moonwatch.MemoOptions
---@return moonwatch.Memo memo
function memo:on(obj, opts) end

---What of an object a memo depends on; as in `moonwatch.WatchOptions`.
---@class moonwatch.MemoOptions
---@field deep? boolean On all that is below the object.
---@field key? any On this field.
---@field keys? any[] On these fields.
---@field path? any[] On this way.
---@field equal? "fire"|"skip" With `"skip"`, not for a write of the same value.
---@field when? moonwatch.GuardFunction Only for writes for which this function returns true.

---A policy, from `mw.policy` or `mw.load_policy`.
---@class moonwatch.Policy
---@field errors table<string, integer> How often a function of the policy raised each error. A rule that raises is skipped; each error goes to `mw.on_error` once.
local policy = {}

---Puts the policy into force and returns the former one.
---@return moonwatch.Policy former
function policy:use() end

---Reads the file again. If the file is bad, the last good one stays in force.
---@return boolean? ok
---@return string? message
function policy:reload() end

---Reads the file again if its time or size has changed; cheap enough for each
---frame.
---@return boolean? reloaded
---@return string? message
function policy:poll() end

---The fields of a policy; what is absent is as in the default policy.
---@class moonwatch.PolicyDefinition
---@field rules? moonwatch.Rule[] Which objects count as dynamic: the first rule that does not return nil decides.
---@field classes? table<any, moonwatch.ClassRules> What is special about a class, by its name or by the class itself.
---@field entries? string[] The names of methods by which the default rules know what runs.
---@field descend? moonwatch.Descend May a deep watch or track go there?
---@field name? fun(parent_name: string, key: any, child: any): string? What an object is called in a hierarchy.
---@field class_name? fun(obj: any): string? What a root is called in a hierarchy.
---@field register? fun(obj: any, event: any, fn: function): any Registers a hook of a plan, instead of `obj:on(event, fn)`.

---One rule: `{ name, function(obj, ctx) }`.
---@class moonwatch.Rule
---@field [1] string The name, which is the reason of a decision.
---@field [2] fun(obj: any, ctx: any): any Decides, or returns nil.

---What is special about a class.
---@class moonwatch.ClassRules
---@field mutators? string[] Methods whose calls count as writes, with the kind `"call"`.
---@field ignore? any[] Fields whose writes are stored and nothing else.
---@field constructors? (string|function)[] The constructors, for `mw.instrument`.
---@field events? any[] The events that a hook of a plan may name.
---@field deep? boolean With false, deep watches and tracks stay out.
---@field new? fun(): any Makes an object that is to be filled.
---@field snapshot? fun(obj: any): any Of a userdata: its state as a plain value.
---@field restore? fun(obj: any, state: any) Of a userdata: gives it a state back.

---What a box is given and may use.
---@class moonwatch.SandboxOptions
---@field env? table Its fields are copied into the globals of the box, where Lua's own functions are the box's.
---@field instructions? integer The instructions of each call; a million by default. A byte of a text that is loaded counts as one, and so do 256 bytes that are allocated.
---@field memory? integer The bytes that a call may have allocated and not given back while it runs; 16 MB by default.
---@field name? string The name, in messages, of chunks that have none.

---A box, from `mw.sandbox`.
---@class moonwatch.Sandbox
local box = {}

---Compiles a text within the budget; nil and a message if the text is not good.
---`chunkname` is as in `load`.
---@param text string
---@param chunkname? string
---@return (function)? fn
---@return string? message
function box:load(text, chunkname) end

---Calls a function with the box's budget. Returns true and its results, or
---false and a text.
---@param fn function
---@param ... any
---@return boolean ok
---@return any ...
function box:call(fn, ...) end

---Returns what the last call used: instructions, and the most bytes at a time.
---@return integer instructions
---@return integer bytes
function box:used() end

---What `mw.instrument` wraps.
---@class moonwatch.InstrumentRules
---@field constructors? (string|function)[] The constructors, by name or as functions; by default those of `new`, `__call`, `init`, `initialize` and `_init` that the class has.
---@field restorers? (string|function)[] What restores an instance from data; by default `__setstate` and `from_data`.
---@field clock? moonwatch.Clock The clock that tags; by default the default clock.

---The rules of `mw.name_class`.
---@class moonwatch.NameRules : moonwatch.ClassRules
---@field replace? boolean Takes the name from another class that has it; objects of that class are written under it.

---What is tracked.
---@class moonwatch.TrackOptions
---@field deep? boolean All that is below the object, too.
---@field descend? moonwatch.Descend With `deep`: decides, instead of the policy, whether a table is included.

---What a transaction records.
---@class moonwatch.TransactionOptions
---@field label? string What people call it.
---@field where? boolean Entries say the file and line of each write.
---@field globals? table An environment whose fields are recorded.
---@field reads? boolean Reads of what is tracked are recorded.

---An open transaction, from `mw.begin`. Closed without an end, it rolls back.
---@class moonwatch.Transaction
local tx = {}

---Ends the transaction and keeps its writes.
---@return moonwatch.Effects? effects
---@return string? message
function tx:commit() end

---Ends the transaction and takes its writes back.
---@return moonwatch.Effects? effects
---@return string? message
function tx:rollback() end

---Tells whether the transaction has not ended.
---@return boolean open
function tx:is_open() end

---What a piece of code wrote, in the order of the program. `#effects` works.
---Effects keep their objects and values alive.
---@class moonwatch.Effects
local effects = {}

---Returns the number of entries.
---@return integer n
function effects:len() end

---Iterates over the entries.
---@return fun(): moonwatch.Entry next
function effects:entries() end

---Returns the objects that were written, in the order of their first writes.
---@return any[] objects
function effects:objects() end

---Returns what was read, or nil if the transaction was not asked for reads.
---@return moonwatch.Read[]? reads
function effects:reads() end

---Gives all fields the values from before, whatever they hold.
---@return moonwatch.Effects effects
function effects:rollback() end

---Writes all entries again, if the fields hold what they held before the
---effects; else returns nil, a message and the entry, and nothing has changed.
---Tables get what was stored, without their class's `__newindex`.
---@param opts? moonwatch.ApplyOptions
---@return moonwatch.Effects? effects
---@return string? message
---@return moonwatch.Entry? entry
function effects:apply(opts) end

---Returns effects that undo these.
---@return moonwatch.Effects effects
function effects:invert() end

---Returns the same change with at most one entry a field.
---@return moonwatch.Effects effects
function effects:squash() end

---Returns these effects followed by the others.
---@param other moonwatch.Effects
---@return moonwatch.Effects effects
function effects:concat(other) end

---Returns the fields that both wrote, and differently, and those that one wrote
---and the other read, as far as the reads are known.
---@param other moonwatch.Effects
---@return moonwatch.Conflict[] conflicts
function effects:conflicts(other) end

---Returns the part of the effects below a root.
---@param root table
---@return moonwatch.Effects? effects
---@return string? message
function effects:only(root) end

---Returns the source of a Lua program that performs the effects, where `names`
---has the objects that are globals there; all others are found by the way to
---them. For `mw.null` and the marks of documents, the text takes the global
---`mw`, else `require "moonwatch"`.
---@param names table<string, any>
---@return string? source
---@return string? message
function effects:to_lua(names) end

---Returns the effects as bytes, for `mw.patch_bytes` on a copy of what is below
---the root, elsewhere or later; nil and a message for what cannot be sent, or
---if a table has moved since that a path needs. Bytes name classes as
---`mw.name_class` does.
---@param root table
---@return string? bytes
---@return string? message
function effects:to_bytes(root) end

---Returns the effects as a JSON patch, for `mw.patch`.
---@param root table
---@return moonwatch.Operation[]? operations
---@return string? message
function effects:to_patch(root) end

---How effects are applied.
---@class moonwatch.ApplyOptions
---@field on_conflict? fun(entry: moonwatch.Entry, actual: any):moonwatch.Decision Decides about an entry whose field does not hold `old` any more.

---What becomes of an entry in conflict.
---@alias moonwatch.Decision
---| "skip" # the entry is left out
---| "overwrite" # the entry is written
---| "abort" # nothing is written; also if the function returns nothing

---One write.
---@class moonwatch.Entry
---@field object? any The written object, or a cell; nil if it has died.
---@field key any The field, or the name of a method that was called.
---@field old any The value from before; of a call, the state.
---@field new any The value after; of a call, the state.
---@field kind moonwatch.Kind What sort of change it is.
---@field where? string The file and line of the write.

---One read.
---@class moonwatch.Read
---@field object any The object.
---@field key? any The field; nil if all of the object was read.

---One field about which effects do not agree.
---@class moonwatch.Conflict
---@field object any The object.
---@field key any The field.
---@field kind "write"|"read" Did both write the field, or has one read what the other wrote?
---@field entry moonwatch.Entry The write.
---@field other? moonwatch.Entry The write of the other effects.

---What a plan allows.
---@class moonwatch.PlanOptions
---@field policy? "error"|"warn"|"silent" Within a scope, are writes to what was tracked outside refused (`"error"`), warned of, or allowed?
---@field intercepted? "refuse" Objects whose class has `__newindex`, or a function as `__index`, cannot be tracked.
---@field where? boolean Entries say where they were stored.

---Writes that are pending, from `mw.plan`. `fx == other` compares plans.
---@class moonwatch.Plan
local fx = {}

---Tracks an object, which may then be written to.
---@generic T: table|userdata
---@param obj T
---@return T obj
function fx:track(obj) end

---Makes and tracks an instance without a constructor; `class:allocate(...)`
---makes it if there is such a method.
---@param class table
---@param ... any
---@return any obj
function fx:track_new(class, ...) end

---Tracks an upvalue of a function.
---@param fn function
---@param i integer
---@return moonwatch.Cell cell
function fx:track_cell(fn, i) end

---Makes and tracks a new cell.
---@param value? any
---@return moonwatch.Cell cell
function fx:new_cell(value) end

---Tracks a field of an environment.
---@param env table
---@param name string
function fx:track_global(env, name) end

---Tells whether the object is tracked.
---@param obj any
---@return boolean tracked
function fx:contains(obj) end

---Stores a value when the plan is applied.
---@param obj any
---@param key any
---@param value any
function fx:store(obj, key, value) end

---Deletes a field when the plan is applied.
---@param obj any
---@param key any
function fx:delete(obj, key) end

---Returns the value that a field has or will have.
---@param obj any
---@param key any
---@return any value
---@return moonwatch.State state
function fx:load(obj, key) end

---Stores a value in a cell when the plan is applied.
---@param cell moonwatch.Cell
---@param value any
function fx:store_cell(cell, value) end

---Returns the value that a cell has or will have.
---@param cell moonwatch.Cell
---@return any value
---@return moonwatch.State state
function fx:load_cell(cell) end

---Stores a global when the plan is applied. A name that is tracked in several
---environments needs `env`.
---@param name string
---@param value any
---@param env? table
function fx:store_global(name, value, env) end

---Returns the value that a global has or will have.
---@param name string
---@param env? table
---@return any value
---@return moonwatch.State state
function fx:load_global(name, env) end

---Marks an object as modified, without a store.
---@param obj any
function fx:mark(obj) end

---Tells whether the object will change; a new one does.
---@param obj any
---@return boolean modified
function fx:is_modified(obj) end

---Tells whether a write to the object, or to this field, is pending.
---@param obj any
---@param key? any
---@return boolean pending
function fx:has_pending(obj, key) end

---Returns the objects that will change, in the order of tracking.
---@return any[] objects
function fx:modified() end

---Tells whether there is nothing to do.
---@return boolean empty
function fx:is_empty() end

---Until the scope is closed, writes to what was tracked before are refused.
---@return moonwatch.Scope scope
function fx:scope() end

---Allows writes to an object in the innermost scope.
---@param obj any
function fx:allow(obj) end

---Calls `ctx:save(...)` when the plan is applied.
---@param ctx any
---@param ... any
function fx:save(ctx, ...) end

---Registers a function for an event when the plan is applied, with
---`obj:on(event, fn)` or the policy's `register`.
---@param obj any
---@param event any
---@param fn function
---@return moonwatch.Hook hook
function fx:hook(obj, event, fn) end

---Removes the hook of an index.
---@param index integer
---@return boolean found
function fx:remove_hook(index) end

---Calls `fn()` at the end of `apply`.
---@param fn function
function fx:finally(fn) end

---Forgets the new objects that nothing leads to, neither the arguments nor the
---plan, and returns how many.
---@param ... any
---@return integer n
function fx:prune(...) end

---Tracks what the other plan tracks.
---@param other moonwatch.Plan
function fx:adopt(other) end

---Returns a copy that shares nothing.
---@return moonwatch.Plan copy
function fx:clone() end

---Returns the first difference in words, or nil.
---@param other moonwatch.Plan
---@return string? difference
function fx:diff(other) end

---Forgets everything.
function fx:clear() end

---Does all or nothing: the saves, the hooks, the writes in the order of the
---program, the callbacks. If a transaction around it is taken back, the plan is
---there again, before what was added since, and its hooks are removed by their
---handles. What is stored while it writes is for the next time.
---@return moonwatch.Effects? effects
---@return string? message
---@return moonwatch.Entry? entry
function fx:apply() end

---Returns the source of a Lua program that does what `apply` would do; nil and
---a message if there are callbacks.
---@param names table<string, any>
---@return string? source
---@return string? message
function fx:to_lua(names) end

---What a plan knows of a field.
---@alias moonwatch.State
---| "pending" # it will have the value
---| "real" # it has the value, and the plan does not write it
---| "deleted" # it will be deleted
---| "absent" # it is nil

---An upvalue, as an object: two functions that share an upvalue have the same
---cell.
---@class moonwatch.Cell
local cell = {}

---A hook of a plan, from `fx:hook`.
---@class moonwatch.Hook
---@field index integer Its number: 0, 1, 2 and so on, never given to another hook of the plan.
local hook = {}

---Takes the hook back, and its registration if the plan was applied. A second
---call does nothing.
function hook:remove() end

---The same as `hook:remove()`.
function hook:cancel() end

---What lasts until it is closed, by hand or with `<close>`.
---@class moonwatch.Scope
local scope = {}

---Ends it. A second call does nothing.
function scope:close() end

---How a history keeps steps.
---@class moonwatch.HistoryOptions
---@field limit? number How many steps are kept; all by default.
---@field merge_window? number The seconds after which runs are no longer merged; by default there is no limit.
---@field on_step? fun(effects: moonwatch.Effects, label: string, direction: "run"|"undo"|"redo") Called after each run, undo and redo with the effects of what was just done: to save or send them. An error in it is raised by that call, when the step is done.
---@field on_conflict? fun(entry: moonwatch.Entry, actual: any):moonwatch.Decision Decides, in an undo or redo, about a field that another writer has changed since, or about a list that is longer or shorter.

---Steps that can be undone and done again. A history keeps the objects and
---values of its steps alive.
---@class moonwatch.History
local history = {}

---Calls `fn(...)` as a step and returns its results. An error takes its writes
---back and goes on. A run that changes nothing is no step, and a run in a run
---is part of it. If a transaction around it is taken back, its step goes too.
---@param label string
---@param fn function
---@param ... any
---@return any ...
function history:run(label, fn, ...) end

---Undoes the last step. Where another writer has changed a field since, or a
---list whose length the step changed (at or behind the first position that the
---step wrote), returns nil, a message and the entry, and nothing has changed.
---@return string? label
---@return string? message
---@return moonwatch.Entry? entry
function history:undo() end

---Does the last undone step again, as carefully.
---@return string? label
---@return string? message
---@return moonwatch.Entry? entry
function history:redo() end

---Tells whether there is a step to undo.
---@return boolean possible
function history:can_undo() end

---Tells whether there is a step to do again.
---@return boolean possible
function history:can_redo() end

---Returns the labels of the steps that can be undone, the oldest first.
---@return string[] labels
function history:labels() end

---Makes one step of successive runs with this label, from now on, within
---`merge_window`; runs that cancel out are no step.
---@param label string
function history:merge(label) end

---Makes the next run a step of its own.
function history:seal() end

---Says that the present state is saved.
function history:mark_saved() end

---Tells whether the present state is the saved one.
---@return boolean saved
function history:is_saved() end

---What a recorder keeps.
---@class moonwatch.RecorderOptions
---@field capacity? integer The most entries; 65,536 by default.
---@field seconds? number Entries that are much older may go.
---@field where? boolean Entries say the file and line of each write.
---@field scopes? boolean Entries say what executed: hierarchies' objects and measured scopes. On by default.
---@field rolled_back? boolean Keeps what was taken back, too, up to the same capacity.

---The last writes, from `mw.recorder`. It keeps the objects and values of its
---entries alive. `#recorder` and `<close>` work; a recorder that is collected
---ends.
---@class moonwatch.Recorder
local recorder = {}

---Iterates over the entries, or those with the number `seq` and later. What was
---taken back stands where that happened.
---@param seq? integer
---@return fun(): moonwatch.RecorderEntry next
function recorder:entries(seq) end

---Returns the last write to a field, or nil; also one of a transaction that is
---open, and with `rolled_back` one that was taken back. What is there now has
---its last writer, though the entry is kept no more.
---@param obj any
---@param key any
---@return moonwatch.RecorderEntry? entry
function recorder:why(obj, key) end

---Returns what an object held after the entry with that number, as a plain
---table; nil and a message if not all entries since are kept, or the recorder
---has stopped.
---@param obj table
---@param seq integer
---@param opts? moonwatch.PastOptions
---@return table? contents
---@return string? message
function recorder:past(obj, seq, opts) end

---Returns the number of entries.
---@return integer n
function recorder:len() end

---Returns how many entries were forgotten because there was no room.
---@return integer n
function recorder:lost() end

---Ends the recording; the entries stay. A second call does nothing.
function recorder:stop() end

---What comes from the past.
---@class moonwatch.PastOptions
---@field deep? boolean The tables below as well, with the same sharing; without it, they are those of now.

---One write, as readers get it. `tostring(entry)` is a sentence, with a line
---for each cause.
---@class moonwatch.RecorderEntry : moonwatch.Entry
---@field seq? integer Its number: ascending, without gaps; nil of what is not committed or was taken back.
---@field epoch? integer The generation of the default clock.
---@field transaction? string|integer The label, or number, of the outermost transaction.
---@field origin? string Who wrote: see `mw.origin`.
---@field scope? string[] What executed, the outermost first.
---@field because? integer The number of the write because of which this one was made: its guard or memo did it, or it was undone.
---@field open? boolean True if the transaction is open.
---@field rolled_back? boolean True if it was taken back.

---Who writes, from `mw.origin` without a function.
---@class moonwatch.Origin
local origin = {}

---Ends the origin. A second call does nothing.
function origin:close() end

---One operation of a JSON patch.
---@class moonwatch.Operation
---@field op "add"|"remove"|"replace"|"move"|"copy"|"test" What it does.
---@field path string A JSON pointer, such as `"/items/0"`.
---@field from? string The source, of `"move"` and `"copy"`.
---@field value? any The value, of `"add"`, `"replace"` and `"test"`.

---What is in a snapshot.
---@class moonwatch.SnapshotOptions
---@field descend? moonwatch.Descend Decides, instead of the policy, whether a table is included.

---Where the state goes.
---@class moonwatch.RestoreOptions
---@field into? table A live root, which gets the state in one transaction that changes what differs and keeps the objects that are the same by their way and kind.

---What a feed gives, and how much it keeps.
---@class moonwatch.FeedOptions
---@field root? table Only what is below this table, which the feed tracks deeply until it is closed, if it is not tracked already. By default, all that is tracked or watched.
---@field descend? fun(parent: table, key: any, child: table): any Says which tables are below the root; by default, the function with which the root is tracked, or the policy's.
---@field capacity? integer The most entries that wait for a look; 65,536 by default.
---@field not_from? string The origin whose writes are left out: see `mw.origin`.
---@field since? integer The number of the entry after which the feed begins: the second result of `mw.snapshot`, or of `feed:seq()`.

---Gives what changed since its last look.
---@class moonwatch.Feed
local feed = {}

---Looks: returns an iterator of the entries since the last look, in their
---order. Below a root, those of objects that were there at the last look, or
---are there now.
---@return fun(): moonwatch.RecorderEntry next
function feed:read() end

---Looks: returns an iterator of object, key, old and new value of each field
---that has changed since the last look, and the kind of change: `"attach"` if
---the new value is a table of which all fields follow, with the table's mark;
---`"detach"` of a table that is below the root no more; `"class"` with the old
---and the new metatable.
---@return fun(): (any, any, any, any, moonwatch.Kind|"attach"|"detach"|"class", string?) next
function feed:changes() end

---Returns how many entries were forgotten because there was no room, in all.
---@return integer n
function feed:lost() end

---Returns the number of the last entry that was looked at.
---@return integer seq
function feed:seq() end

---Returns how many entries wait for the next look, of the root or not.
---@return integer n
function feed:pending() end

---Ends the feed. Also done by `<close>`, and when the feed is collected.
function feed:close() end

---How frames are run again.
---@class moonwatch.ReplayOptions
---@field frames? integer How many; 8 by default.
---@field before? fun() Called once before each of the two passes, to set seeds and clocks.

---The first write in which two passes differ; `tostring` gives it in words.
---@class moonwatch.Difference
---@field frame integer The number of the frame, from 1.
---@field object any The object that was written, of the first pass.
---@field path? any[] The keys that lead from the root to the object.
---@field key any The field; nil if the object got another class.
---@field first any The new value in the first pass.
---@field second any The new value in the second pass.
---@field where? string Where in the program, as `file:line`: in the first pass if it made the write.
---@field second_where? string Where in the second pass.
---@field because? moonwatch.Cause The write whose guard made it, in the same pass as `where`.

---A write that was the cause of another one.
---@class moonwatch.Cause
---@field object any The object that was written.
---@field path? any[] The keys that lead from the root to the object.
---@field key any The field.
---@field old any The value before.
---@field new any The value after.
---@field where? string Where in the program, as `file:line`.
---@field because? moonwatch.Cause The cause of this write.

---How objects are found and named.
---@class moonwatch.HierarchyOptions
---@field root? string The name that is always among `h:parents()`; `"Global"` by default.
---@field children? fun(obj: any): any, any, any Returns a table, or an iterator, of the keys and children of an object. By default, children are the fields, also in plain tables, that hold objects of an instrumented class or with a method in the policy's `entries`.
---@field name? fun(parent_name: string, key: any, child: any): string? What a child is called; with nil, as without the function.
---@field class_name? fun(obj: any): string? What a root is called.

---Stacks of objects that execute, with names, from `mw.hierarchy`.
---@class moonwatch.Hierarchy
local h = {}

---Puts an object on the stack of the running coroutine. The first time, what is
---below the object is looked through once.
---@param obj moonwatch.Object
---@return string name
function h:enter(obj) end

---Takes an object off the stack, with all that it has entered.
---@param obj moonwatch.Object
function h:leave(obj) end

---Enters an object until the scope is closed.
---@param obj moonwatch.Object
---@return moonwatch.Scope scope
function h:scope(obj) end

---Makes calls of these methods enter and leave their object, also on errors.
---Such a call is no tail call any more. A self that is no object (a number,
---`mw.null`) is not entered.
---@param class table
---@param methods string[]
---@return moonwatch.Handle handle
function h:instrument(class, methods) end

---Returns what executes, or nothing.
---@return string? name
---@return any obj
---@return integer? depth
function h:current() end

---Returns the names on the stack, the outermost first.
---@return string[] names
function h:path() end

---Returns the same names as a set, with the root's name.
---@return table<string, boolean> set
function h:parents() end

---Returns the name of an object.
---@param obj any
---@return string? name
function h:name_of(obj) end

---Returns the live object of a name.
---@param name any
---@return any obj
function h:object(name) end

---Returns the keys from the root to an object.
---@param obj any
---@return any[]? keys
function h:key_path(obj) end

---Returns the names of all live objects, sorted.
---@return string[] names
function h:names() end

---Calls functions when objects of a class, not of its subclasses, are entered
---and left; without a class, for all objects. Their errors go to `mw.on_error`,
---else the first is raised when all were called.
---@param class table
---@param events moonwatch.HierarchyEvents
---@return moonwatch.Handle handle
---@overload fun(events: moonwatch.HierarchyEvents): moonwatch.Handle
function h:on(class, events) end

---Begins to tape what is left; with false, ends that and forgets the tape.
---@param on? boolean|moonwatch.RecordOptions
function h:record(on) end

---Visits what is on the tape, the last first, under the names from then, and
---empties the tape.
---@param fn fun(obj: any, name: string)
function h:backward(fn) end

---Tells whether the running coroutine is in `h:backward`.
---@return boolean reverse
function h:is_reverse() end

---Empties the stacks and the tape; names stay.
function h:reset() end

---Takes all instrumentation and all hooks away.
function h:close() end

---What `h:record` tapes.
---@class moonwatch.RecordOptions
---@field only? fun(obj: any): any Takes the object part in the tape? Asked when it is entered.

---The functions of `h:on`.
---@class moonwatch.HierarchyEvents
---@field enter? fun(obj: any, name: string) An object was entered.
---@field leave? fun(obj: any, name: string) An object is left.
---@field reverse_enter? fun(obj: any, name: string) An object is visited in reverse.
---@field reverse_leave? fun(obj: any, name: string) That visit ends.
---@field confused? fun(message: string, name: string, phase: "forward"|"reverse") An object was left that had not been entered.

---How examples are read.
---@class moonwatch.DynamismOptions
---@field shape? fun(value: any): integer[]? Returns the sizes of a value that has a shape; by default the field `shape`.
---@field objects? fun(value: any): any Is the value an object that `mw.to_nested` opens?
---@field keep? integer How many values are remembered a path and kind; 16.
---@field confidence? integer The least number of examples that make a constant; 1.

---What is known of examples, from `mw.dynamism`.
---@class moonwatch.Report
local report = {}

---Adds an example.
---@param example any
---@return moonwatch.Report report
function report:add(example) end

---Adds all that another report knows.
---@param other moonwatch.Report
---@return moonwatch.Report report
function report:merge(other) end

---Returns the number of examples.
---@return integer n
function report:examples() end

---Returns which dimensions had more than one value: the top key, then the path,
---then an array of booleans.
---@return table<any, table<string, boolean[]>> dims
function report:dims() end

---Returns all that is known, by path.
---@return table<string, moonwatch.Change> changes
function report:changes() end

---What is known of one path.
---@class moonwatch.Change
---@field keys any[] The path as an array of keys.
---@field verdict "constant"|"varying"|"unsure" What it is.
---@field varies table<string, boolean> The set of what varies: `value`, `kind`, `presence`, `length`, `rank`.
---@field examples integer How often there was a value.
---@field missing integer How often there was none.
---@field kinds table<string, integer> How often each kind of value was there.
---@field distinct integer|"many" The number of different scalars.
---@field values any[] The scalars, in order.
---@field min? number The least number.
---@field max? number The greatest number.
---@field length? { min: integer, max: integer } The lengths of tables and strings.
---@field ranks? integer[] The ranks of shaped values.
---@field dims? moonwatch.Change[] The dimensions of shaped values.

---How examples are read, and what is accepted.
---@class moonwatch.InferOptions : moonwatch.DynamismOptions
---@field exact? boolean Refuses fields that no example had.

---What examples have in common, from `mw.infer`.
---@class moonwatch.Specialisation
local spec = {}

---Tells whether constants are the same, numbers in their range, and kinds,
---lengths and shapes those that there were; if not, the first path that
---differs.
---@param example any
---@return boolean same
---@return string? path
function spec:matches(example) end

---Returns the values that are always the same, by path.
---@return table<string, any> constants
function spec:constants() end

---Returns the other places, by path.
---@return table<string, moonwatch.Place> places
function spec:varying() end

---Returns the source of a function that does what `matches` does, without the
---library.
---@return string? source
---@return string? message
function spec:to_lua() end

---What values a place may have.
---@class moonwatch.Place
---@field kinds string[] The kinds of values.
---@field min? number The least number.
---@field max? number The greatest number.
---@field length? { min: integer, max: integer } The lengths of tables.
---@field dims? moonwatch.Place[] The dimensions of shaped values.
---@field optional? boolean May the value be missing?

---How an object is opened.
---@class moonwatch.NestedOptions
---@field shape? fun(value: any): integer[]? As in `moonwatch.DynamismOptions`.
---@field objects? fun(value: any): any Is the value an object? By default a table with a metatable is.

---How shapes are found.
---@class moonwatch.SkeletonOptions
---@field shape? fun(value: any): integer[]? As in `moonwatch.DynamismOptions`.

---What is known of a scope.
---@class moonwatch.TimedOptions
---@field category? string The category in the trace.
---@field args? table Data that are copied into the trace.
---@field column? string A name that ends in `_us`: the scope is measured in any case, and its microseconds are added to the metrics that are entered.
---@field reverse? boolean Says that the scope belongs to a reverse pass.

---A measured scope, from `mw.timed`. Its data go into a trace, if one runs.
---@class moonwatch.TimedScope : moonwatch.Scope
local timed = {}

---Sets one of the scope's data.
---@param key any
---@param value any
function timed:add(key, value) end

---Adds `n`, or 1, to one of the scope's data.
---@param key any
---@param n? number
function timed:increment(key, n) end

---Adds a member to a set among the scope's data.
---@param key any
---@param member any
function timed:insert(key, member) end

---Ends the scope. A second call does nothing.
function timed:close() end

---What a trace keeps.
---@class moonwatch.TraceOptions
---@field capacity? integer How many events are kept, the last ones; 262,144 by default.
---@field sources? moonwatch.Source[] What is traced beside scopes.
---@field where? boolean Says that a traced write has its place in the program.

---What a trace can trace by itself.
---@alias moonwatch.Source
---| "watch" # each write to what is watched or tracked, with the values before and after, and how many guards were called
---| "epoch" # clocks that advance
---| "transaction" # transactions
---| "hierarchy" # the objects that execute

---A ring of events, from `mw.trace`.
---@class moonwatch.Trace
local trace = {}

---Begins to trace.
---@return moonwatch.Trace trace
function trace:start() end

---Ends the trace.
---@return moonwatch.Trace trace
function trace:stop() end

---Forgets all events.
---@return moonwatch.Trace trace
function trace:clear() end

---Returns how many events are kept.
---@return integer n
function trace:len() end

---Returns how many events were lost.
---@return integer n
function trace:lost() end

---Writes a file; if that fails, returns nil and a message.
---@param path string
---@param format? moonwatch.TraceFormat
---@return boolean? ok
---@return string? message
function trace:write(path, format) end

---What a trace is written as.
---@alias moonwatch.TraceFormat
---| "chrome" # trace events, which Perfetto opens; the default
---| "speedscope" # a profile for speedscope
---| "html" # a page that can be opened anywhere

---A report that will be written, from `mw.report_at_exit`.
---@class moonwatch.Written
local written = {}

---Writes no report.
function written:cancel() end

---What `mw.metrics` is.
---@class moonwatch.MakeMetrics
---@overload fun(opts?: moonwatch.OnExit|moonwatch.MetricsOptions): moonwatch.Metrics
local mw_metrics = {}

---Returns the context that was entered last among those that are entered, or
---nil.
---@return moonwatch.Metrics? metrics
function mw_metrics.current() end

---Options of `mw.metrics`.
---@class moonwatch.MetricsOptions
---@field on_exit? moonwatch.OnExit Is called with the report.
---@field schema? table<string, string> The metrics that there are, and the type of each: "integer", "float", "number", "string", "boolean", "table", "set" or "list".

---Called once, at the outermost exit.
---@alias moonwatch.OnExit fun(start_ns: integer, end_ns: integer, values: table, err: any)

---A context, from `mw.metrics`; it can be closed with `<close>`.
---@class moonwatch.Metrics
local metrics = {}

---Enters the context, which may be entered already.
---@return moonwatch.Metrics metrics
function metrics:enter() end

---Leaves the context.
---@param err? any
function metrics:leave(err) end

---Tells whether the context is entered.
---@return boolean entered
function metrics:in_progress() end

---Returns the metrics as a JSON object: those of now, or of the last report. A
---key that is a number or a boolean is its text.
---@return string text
function metrics:to_json() end

---Adds `n`, or 1, to a metric.
---@param name string
---@param n? number
function metrics:increment(name, n) end

---Sets a metric; a second time only with `overwrite`.
---@param name string
---@param value any
---@param overwrite? boolean
function metrics:set(name, value, overwrite) end

---Sets several metrics, all or none.
---@param values table<string, any>
---@param overwrite? boolean
function metrics:update(values, overwrite) end

---Sets a field of a metric that is a table.
---@param name string
---@param key any
---@param value any
function metrics:set_key(name, key, value) end

---Adds a member to a metric that is a set.
---@param name string
---@param member any
function metrics:add_to_set(name, member) end

---Keeps the `n` keys with the largest values.
---@param name string
---@param key any
---@param value number
---@param n integer
function metrics:top_n(name, key, value, n) end

---Bytes by part.
---@class moonwatch.Memory
---@field objects integer Identities, tags of clocks, records of objects.
---@field watches integer Watches, and what is below what.
---@field journal integer What transactions and readers have recorded.
---@field names integer Hierarchies: stacks, names and tapes.
---@field traces integer The events and texts of traces.
---@field total integer The sum.

---A set of keys that were seen, from `mw.once`; it keeps no object alive.
---`#seen` works.
---@class moonwatch.Seen
---@overload fun(key: any): boolean
local seen = {}

---Returns the number of keys that the set knows.
---@return integer n
function seen:len() end

---Forgets all keys.
function seen:clear() end

---A field that is set for a while, from `mw.cleanup`; it can be closed with
---`<close>`.
---@class moonwatch.Cleanup
local cleanup = {}

---Deletes the field, unless the program has set it to another value. A second
---call does nothing.
function cleanup:run() end

---The same as `cleanup:run()`.
function cleanup:cancel() end

---Tells whether the handle has not run yet.
---@return boolean alive
function cleanup:alive() end

---Returns how many handles of `mw.cleanup` have not run yet.
---@return integer n
function cleanup:pending() end

---Returns the object's serial: 1, 2, 3 and so on, the same for the object's
---whole life and never given to another object.
---@generic T: moonwatch.Object
---@param obj T
---@return integer serial
function mw.id(obj) end

---Returns the live object of a serial, or nil.
---@param serial integer
---@return any obj
function mw.object(serial) end

---Returns a table with weak keys that are compared by identity. `on_death` is
---called once for each key that was collected, after the entry is gone. An
---error in it goes to `mw.on_error`, else the next call raises the first.
---@param on_death? fun(value: any, id: integer)
---@return moonwatch.WeakMap map
function mw.weakmap(on_death) end

---Deals with the deaths of objects now, with at most `budget` of them, and
---returns how many there were. This also happens in small slices whenever the
---library is used. With a budget, the library also looks at no more than 10,000
---objects and 100 for each death of the budget.
---@param budget? integer
---@return integer n
function mw.reap(budget) end

---Returns the clock of that name, or the default clock. A clock starts at
---generation 0.
---@param name? string
---@return moonwatch.Clock clock
function mw.clock(name) end

---Marks exactly this class, not its subclasses, as dynamic; with false, takes
---the mark away. A class is a metatable, of userdata too, or the table that
---stands for it.
---@param class table
---@param on? boolean
function mw.mark_dynamic(class, on) end

---Tells whether the class is marked.
---@param class any
---@return boolean marked
function mw.is_marked(class) end

---Calls the guard when a table, or a userdata with a metatable, is written: a
---function as `guard(obj, key, old, new, kind)`; of a table or userdata, which
---is held weakly, the method `guard:invalidate(obj, key, old, new, kind)`; an
---`mw.guard()` becomes invalid. The guards of several roots above an object are
---called in the order in which each root was first watched deeply.
---@param obj table|userdata
---@param guard moonwatch.Guards
---@param opts? moonwatch.WatchOptions
---@return moonwatch.Watch watch
function mw.watch(obj, guard, opts) end

---Returns the cheapest guard: a bit, which a write makes false without a call
---into Lua.
---@return moonwatch.Guard guard
function mw.guard() end

---Calls `fn(...)` and returns its results. Guards that writes within concern
---are called once each at the end of the outermost batch, with the last key
---that concerns them, the value from before the batch and the new one. The
---function may yield: a batch owns the writes of its coroutine and of those
---that it drives. Without a function, returns a batch for `local batch <close>
---= mw.batch()`.
---@param fn function
---@param ... any
---@return any ...
---@overload fun(): moonwatch.Batch
function mw.batch(fn, ...) end

---Sets the function that takes the errors of guards, hooks and callbacks, and
---returns the former one. Without a function, the first error of a guard is
---raised from the writing statement, after all guards were called and the value
---was stored; the first error that no statement made, by the next call of the
---library that may raise.
---@param handler? fun(err: any, where: string)
---@return (function)? former
function mw.on_error(handler) end

---Returns the number of writes since the object was first watched.
---@param obj any
---@return integer n
function mw.mutations(obj) end

---Tells whether a watched object was written in this generation of the default
---clock or later.
---@param obj any
---@param generation integer
---@return boolean changed
function mw.changed_since(obj, generation) end

---Returns the generation of the default clock in which a watched object was
---last written, or -1.
---@param obj any
---@return integer generation
function mw.last_change(obj) end

---Tells whether the object is watched.
---@param obj any
---@return boolean watched
function mw.is_watched(obj) end

---Ends all watches of an object and gives it back as a plain one. Returns false
---where the object stays tracked, or below something that is watched or tracked
---deeply.
---@param obj any
---@return boolean plain
function mw.unwatch(obj) end

---Returns all ways from an object that is watched or tracked deeply to an
---object below, each an array of keys, the shortest first.
---@param obj table
---@param below table
---@return any[][] paths
function mw.paths(obj, below) end

---Makes contents of what `rawset` or C code put into a watched object, and
---tells of it with the kind `"raw"`. Until then it is shown by reads and
---`pairs`, and writes to it are not heard.
---@param obj any
---@return boolean found
function mw.sync(obj) end

---Calls the guards for a write that the library cannot see.
---@param obj any
---@param key? any
function mw.touch(obj, key) end

---Returns a deep copy that nothing tracks, with the same sharing, cycles and
---classes: for printers and serialisers. The copy has no metatable where the
---class has `__gc` or `__close` or keeps the fields elsewhere; classes and weak
---tables in fields are themselves.
---@generic T
---@param value T
---@return T copy
function mw.plain(value) end

---Puts `next`, `pairs`, `rawget`, `rawset`, `rawlen`, `getmetatable` (nil for
---an object without a class) and `setmetatable` that know watched objects into
---the table `env`, until the handle is cancelled, which puts back what is still
---its own.
---@param env table
---@return moonwatch.Handle handle
function mw.see_through(env) end

---Gives a watched object another metatable; of other objects, the same as Lua's
---`setmetatable`.
---@generic T: table
---@param obj T
---@param metatable? table
---@return T obj
function mw.setmetatable(obj, metatable) end

---Gives the watched objects of a class the metamethods that the class has now,
---and returns how many objects there are: the line for a function that reloads
---a class.
---@param class table
---@return integer n
function mw.refresh(class) end

---Returns a callable with the results of `fn()`, which are computed again only
---after a write to one of the objects that follow, or after a memo among them
---is out of date.
---@param fn function
---@param ... any
---@return moonwatch.Memo memo
function mw.memo(fn, ...) end

---Returns a policy made of a table. It is in force after `policy:use()`.
---@param definition moonwatch.PolicyDefinition
---@return moonwatch.Policy policy
function mw.policy(definition) end

---Returns a policy made of a file, which runs in a box with a budget of
---instructions and memory; nil and a message if the file is not good. The file
---finds the fields of `env` among its globals.
---@param path string
---@param env? table
---@return moonwatch.Policy? policy
---@return string? message
function mw.load_policy(path, env) end

---Returns a box, which guards a program against mistakes of code: a call may
---use so many instructions and so much memory, and finds only what the box is
---given. It is no wall against an attacker.
---@param opts? moonwatch.SandboxOptions
---@return moonwatch.Sandbox box
function mw.sandbox(opts) end

---From now on, tags each instance of the class when its constructor returns or
---when it is restored from data, and advances the clock. The handle restores
---the class. Plain classes, middleclass, classic and Penlight are known.
---@param class table
---@param rules? moonwatch.InstrumentRules
---@return moonwatch.Handle handle
function mw.instrument(class, rules) end

---Returns the value of the first rule that decides about the object, and the
---name of that rule; false and `"default"` if none does.
---@param obj any
---@param ctx? table
---@return any value
---@return string reason
function mw.is_dynamic(obj, ctx) end

---Gives a class the name by which bytes, policies and hierarchies know it, with
---the rules that a policy may have for it; where both say something, the policy
---counts. The class is held weakly: its name is free when the collector has
---taken it.
---@generic T: table
---@param name string
---@param class T
---@param rules? moonwatch.NameRules
---@return T class
function mw.name_class(name, class, rules) end

---Lets transactions, histories, recorders and feeds record the writes to an
---object, which no guard has to watch.
---@generic T: table|userdata
---@param obj T
---@param opts? moonwatch.TrackOptions
---@return T obj
function mw.track(obj, opts) end

---Ends `mw.track`, and drops what open transactions have recorded of the
---object.
---@param obj any
function mw.untrack(obj) end

---Calls `fn(...)` and returns true, the effects of its writes and its results.
---If `fn` raises, all its writes are taken back, and false and the error come
---back. A label or options may come before the function. Transactions nest, and
---`fn` may yield.
---@param fn function
---@param ... any
---@return boolean ok
---@return moonwatch.Effects effects
---@return any ...
---@overload fun(opts: string|moonwatch.TransactionOptions, fn: function, ...: any): boolean, moonwatch.Effects, ...
function mw.transaction(fn, ...) end

---Begins a transaction, for `local tx <close> = mw.begin()`. The argument is a
---label or options. Transactions may end in any order.
---@param opts? string|moonwatch.TransactionOptions
---@return moonwatch.Transaction tx
function mw.begin(opts) end

---Returns a plan: writes that are made later, or never.
---@param opts? moonwatch.PlanOptions
---@return moonwatch.Plan fx
function mw.plan(opts) end

---Returns an undo history.
---@param opts? moonwatch.HistoryOptions
---@return moonwatch.History history
function mw.history(opts) end

---Begins to record the writes to all that is watched or tracked, and keeps the
---last of them.
---@param opts? moonwatch.RecorderOptions
---@return moonwatch.Recorder recorder
function mw.recorder(opts) end

---Asks the running recorder that was made last: see `recorder:why`. Returns nil
---and a message if there is none, or if the object is neither watched nor
---tracked.
---@param obj any
---@param key any
---@return moonwatch.RecorderEntry? entry
---@return string? message
function mw.why(obj, key) end

---Calls `fn(...)` and returns its results; what it writes has this origin: a
---player, the network, a script. The innermost origin counts. A coroutine
---without an origin has that of the coroutine that waits for it. Without a
---function, returns the origin for a block: `local _ <close> =
---mw.origin(name)`.
---@param name string
---@param fn function
---@param ... any
---@return any ...
---@overload fun(name: string): moonwatch.Origin
function mw.origin(name, fn, ...) end

---Returns the origin that a write would have now, so that a check can ask who
---writes; nil if there is none.
---@return string? name
function mw.current_origin() end

---Performs a JSON patch (RFC 6902), all operations or none; an operation on
---`""` makes another root. If an operation fails, returns nil, a message and
---its index. An operation costs its path, not the tables on it. A table in two
---places is changed once, and refused if operations come to it by both. A patch
---writes into no class.
---@param root table
---@param operations moonwatch.Operation[]
---@return any root
---@return string? message
---@return integer? index
function mw.patch(root, operations) end

---Returns the operations that make `a` equal to `b`; nil and a message for what
---JSON cannot say: functions, NaN, cycles, strings that are not UTF-8, tables
---with keys of both kinds. The order is fixed. Of a list there are inserts and
---removes, but no more than it takes to replace what differs.
---@param a any
---@param b any
---@return moonwatch.Operation[]? operations
---@return string? message
function mw.diff(a, b) end

---Performs effects that came as bytes, from `effects:to_bytes`. Damaged bytes
---change nothing; no bytes write into a class or set another metatable than
---that of a named class. A new object is made by the rule `new`, else by
---`class:allocate()`, else with the metatable alone. If the root is not tracked
---deeply, all below is walked once for classes.
---@param root table
---@param bytes string
---@return table? root
---@return string? message
function mw.patch_bytes(root, bytes) end

---Marks a table as JSON's array. Without a mark, an empty table is either, and
---the keys of others decide.
---@generic T: table
---@param t T
---@return T t
function mw.array(t) end

---Marks a table as JSON's object.
---@generic T: table
---@param t T
---@return T t
function mw.object_like(t) end

---Returns the state below a root as bytes, and the number of the last entry
---that was delivered; nil and a message for what bytes cannot say, with the way
---to it. The same state gives the same bytes. Of fields that open transactions
---have written, the values from before count.
---@param root table
---@param opts? moonwatch.SnapshotOptions
---@return string? bytes
---@return integer|string seq
function mw.snapshot(root, opts) end

---Makes the state of a snapshot, as new objects. Bytes that are damaged, or
---that name an unknown class, are nil and a message, and nothing has changed.
---@param bytes string
---@param opts? moonwatch.RestoreOptions
---@return table? root
---@return string? message
function mw.restore(bytes, opts) end

---Returns a hash of the state below a root that a snapshot would have: of
---content, not of identity, and the same on every machine. Two hashes are equal
---exactly when the snapshots are. What a snapshot refuses is nil and its
---message.
---@param root table
---@return integer? hash
---@return string? message
function mw.hash(root) end

---Returns a feed, which gives what changes from now on; with `since`, nil and a
---message if not all entries since are kept, or if no feed of this root and
---`descend` has been open since.
---@param opts? moonwatch.FeedOptions
---@return moonwatch.Feed? feed
---@return string? message
function mw.feed(opts) end

---Calls `step()` for some frames, takes their writes back, calls it again as
---often, and compares the writes of both passes: returns true; or false and the
---first write that differs. The root is then as after the first pass. An error
---of `step` is raised, with the root as it was.
---@param root table
---@param step function
---@param opts? moonwatch.ReplayOptions
---@return boolean same
---@return moonwatch.Difference? report
function mw.check_replay(root, step, opts) end

---Returns a hierarchy: what is executing, and under which name. Each coroutine
---has its own stack.
---@param opts? moonwatch.HierarchyOptions
---@return moonwatch.Hierarchy h
function mw.hierarchy(opts) end

---Returns a report of what varies between examples, which are tables.
---@param examples? any[]
---@param opts? moonwatch.DynamismOptions
---@return moonwatch.Report report
function mw.dynamism(examples, opts) end

---Returns what the examples have in common, to test other examples.
---@param examples any[]|moonwatch.Report
---@param opts? moonwatch.InferOptions
---@return moonwatch.Specialisation spec
function mw.infer(examples, opts) end

---Returns what an object has as a table: `_parameters` (what has a shape),
---`_modules` (objects below) and public numbers; what cannot be read is left
---out.
---@param obj any
---@param opts? moonwatch.NestedOptions
---@return table nested
function mw.to_nested(obj, opts) end

---Returns a copy in which `{ meta = true, shape = sizes }` stands for what has
---a shape.
---@param value any
---@param opts? moonwatch.SkeletonOptions
---@return any copy
function mw.skeleton(value, opts) end

---Returns a path as reports write it: `L.x[1].y` becomes `L['x'][1]['y']`.
---@param name string
---@return string path
function mw.normalize_name(name) end

---Opens a scope that is measured while a trace runs, while `mw.timing` is on,
---or because it has a column: for `local _ <close> = mw.timed "draw"`.
---@param name string
---@param opts? moonwatch.TimedOptions
---@return moonwatch.TimedScope scope
function mw.timed(name, opts) end

---Returns the innermost scope of the running coroutine, or the innermost of
---that name, that is open and measured; nil if there is none. So code deep
---inside can add to what it runs in.
---@param name? string
---@return moonwatch.TimedScope? scope
function mw.current_scope(name) end

---Returns the outermost such scope of the running coroutine, or nil.
---@return moonwatch.TimedScope? scope
function mw.outermost_scope() end

---Writes a moment into the trace.
---@param name string
---@param args? table
function mw.instant(name, args) end

---Writes a value into the trace.
---@param name string
---@param value number
function mw.counter(name, value) end

---Returns a trace, which begins with `trace:start()`. One trace runs at a time.
---@param opts? moonwatch.TraceOptions
---@return moonwatch.Trace trace
function mw.trace(opts) end

---Says whether all scopes are measured, and returns whether they were.
---@param on boolean
---@return boolean former
function mw.timing(on) end

---Returns the durations of the measured scopes in seconds: the last 1,024 of
---each name, or count, sum, min and max of all.
---@param format? "text"|"csv"|"table"
---@param aggregate? boolean
---@return any times
function mw.times(format, aggregate) end

---Returns the seconds that scopes with a column took, by name, and their
---`total`. Where they are nested, the outermost counts; the time in which a
---coroutine is suspended does not.
---@return table<string, number> seconds
function mw.time_spent() end

---Forgets all durations.
function mw.reset_times() end

---Adds `n`, or 1, to a counter and returns its value.
---@param section any
---@param name any
---@param n? number
---@return number value
function mw.count(section, name, n) end

---Returns the total of a section.
---@param section any
---@return number total
function mw.counted(section) end

---Forgets all counters.
function mw.reset_counters() end

---Writes times, counters and metrics of the whole program to a file when the
---Lua state closes: as text, or as JSON if the name of the file ends so.
---@param path string
---@return moonwatch.Written handle
function mw.report_at_exit(path) end

---Returns the number of the frame.
---@return integer n
function mw.frame() end

---Begins the next frame and returns its number.
---@return integer n
function mw.advance_frame() end

---Goes back to frame 0.
function mw.reset_frames() end

---Returns the bytes that the library has allocated beside what Lua counts.
---@return moonwatch.Memory memory
function mw.memory() end

---Returns a set that is called with a key: `seen(key)` is true the first time.
---Of more than `max` keys (4096), the set forgets the key that it was asked for
---the longest time ago.
---@param max? integer
---@return moonwatch.Seen seen
function mw.once(max) end

---Sets `scope[name]`, which must be nil, to `value`, until the handle runs.
---@param scope table
---@param name any
---@param value any
---@return moonwatch.Cleanup handle
function mw.cleanup(scope, name, value) end

---Runs the handle when `owner` has died.
---@param owner moonwatch.Object
---@param handle moonwatch.Cleanup
---@return moonwatch.Cleanup handle
function mw.cleanup_for(owner, handle) end

---Asks `fn()` for a text, cut to 256 characters, when a write that is traced
---calls guards.
---@param fn fun(): string?
---@return moonwatch.Handle handle
function mw.context(fn) end

return mw
