package main

// sourceHelp explains where source comes from.
const sourceHelp = `Source is looked up below each --source DIR by the ends of the paths in the debug information. Without
--source, files of code in the working directory's tree are shown, if they lie where the debug
information says. So are, always, the files of compilers, languages and distributions: GOROOT, Go's
module cache, those of rustup and cargo, and below /usr what include, src, lib/gcc and clang hold, of
--symfs first. No other file is read, whatever its name in the debug information, nor a hidden one, one
behind a link that leads out of the directory, one that is not text or larger than 64 MiB, or one of
/proc, /sys or /dev. Whether it is the source that was compiled is unknown.`
