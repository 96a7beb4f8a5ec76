# markdown.sh FLAGS BINARY builds the program by Debian's cargo and rustc, in a directory beside BINARY.
export RUSTC_BOOTSTRAP=1 RUSTC="$PWD/../rust/usr/bin/rustc" LD_LIBRARY_PATH="$PWD/../rust/usr/lib/x86_64-linux-gnu:$PWD/../rust/lib/x86_64-linux-gnu"
export RUSTFLAGS="-Clinker=$PWD/../rust/linker -Clink-arg=-Wl,--build-id $1"
../rust/usr/bin/cargo build -q --release --offline --target x86_64-unknown-linux-gnu --target-dir "$2.target" || exit
cp "$2.target/x86_64-unknown-linux-gnu/release/markdown" "$2"
rm -rf "$2.target"
