-- A policy file for specs: its rule returns what the file is given of the
-- library.

return {
  rules = {
    { "shows", function(obj, ctx)
      return {
        class = ctx.class(obj), entries = ctx.entries, clock = ctx.clock,
        raw = ctx.raw(obj), inherited = ctx.lookup(obj, "inherited"),
        index = ctx.metamethod(obj, "__index"), now = ctx.clock:now(),
        is = ctx.is(ctx.class(obj), ctx.class(obj)),
      }
    end },
  },
}
