package collect

//go:generate go tool bpf2go -go-package collect -tags linux -cc clang-19 -strip llvm-strip-19 -output-dir=$BPF_OUT -target amd64,arm64 -no-global-types -cflags "-O2 -Wall -Werror" sampler bpf/sampler.c
//go:generate go tool bpf2go -go-package collect -tags linux -cc clang-19 -strip llvm-strip-19 -output-dir=$BPF_OUT -target amd64,arm64 -no-global-types -cflags "-O2 -Wall -Werror" prober bpf/prober.c
//go:generate go tool bpf2go -go-package collect -tags linux -cc clang-19 -strip llvm-strip-19 -output-dir=$BPF_OUT -target amd64,arm64 -no-global-types -cflags "-O2 -mcpu=v3 -Wall -Werror" walker bpf/walker.c
//go:generate go tool bpf2go -go-package collect -tags linux -cc clang-19 -strip llvm-strip-19 -output-dir=$BPF_OUT -target amd64,arm64 -no-global-types -cflags "-O2 -Wall -Werror" offcpu bpf/offcpu.c
