module example.com/dots.v2

go 1.26
