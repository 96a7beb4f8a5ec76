// Package kernel says where the code of Linux itself is: the symbols that samplers need, the
// modules that are loaded, and the image at an address, each with its build ID.
//
// It refuses what the kernel hides from this process: addresses are then 0, and what lies there
// has no image. Package collect takes over, which samples the kernel, and whoever has files of
// the kernel whose build IDs are to be compared with those of this machine.
package kernel
