// Package site holds together what a run has in the cluster: its namespace,
// which says whose it is; the pods of its roles and the lines to their control
// servers; an observer on each node; and what is left of runs that died.
//
// It knows nothing of studies. The trials of every kind build on it.
package site
