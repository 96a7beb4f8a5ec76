# lua.sh TIMES LUA has a Lua run script.lua, which must print the same each time.
exec "$2" -e "dofile('../script.lua') local s = 0 for i = 1, $1 do s = s + work() end print(s)"
