package collect
