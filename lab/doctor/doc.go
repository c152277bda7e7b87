// Package doctor says whether a machine is fit to measure on.
//
// [Gather] reads facts from a root file system (/proc, /sys, /etc) and from
// a [Host], which answers what only a live machine can: which programs are
// on the path, how late a timer wakes, who used CPU over the last second.
// [Judge] turns those [Facts] into [Line]s, each ok, warning or failure with
// what mends it, and touches nothing. Tests give a made-up file system and
// host.
package doctor
