-- The table that holds the contents of a watched or tracked object, which no
-- program sees; of any other value, the value.

return require("moonwatch.core").private.raw
