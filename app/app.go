// Package app holds what the commands do, without flags and without a terminal: it opens a lab
// or a cluster, takes the cluster for one process at a time, asks for consent, runs the study
// and hands out findings. The caller says where progress goes and how to ask ([RunOptions]);
// cli does that at a terminal, and in the pod of a detached run.
package app

import (
	"cmp"
	"runtime/debug"

	"github.com/meshtrial/meshtrial/internal/shell"
	"github.com/meshtrial/meshtrial/lab/components"
)

// Progress shows what a command is doing. Its methods must be safe for concurrent use.
type Progress interface {
	// Say replaces the current status line.
	Say(format string, args ...any)
	// Note adds a line that stays.
	Note(format string, args ...any)
	// Component tells of a component that is built or downloaded.
	Component(components.Event)
	// Clear ends what was said last: nothing goes on.
	Clear()
}

// unstamped is the version of builds that know none, such as those of tests.
const unstamped = "devel"

// stamp is the version of a build from an archive, where the Go tool finds no commit: the
// linker sets it (see the Makefile).
var stamp string

// Version is the version stamped into the binary by the Go tool, a release
// tag or the commit it was built from, or by the linker.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if version := VersionOf(info); version != unstamped {
		return version
	}
	return cmp.Or(stamp, unstamped)
}

// VersionOf returns the version that the Go tool recorded when it built a meshtrial. It does not
// see the one set by the linker, which is in the program itself.
func VersionOf(info *debug.BuildInfo) string {
	version := info.Main.Version
	if version != "" && version != "(devel)" {
		return version
	}
	revision, dirty := "", ""
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			revision = setting.Value
		case "vcs.modified":
			if setting.Value == "true" {
				dirty = "+changes"
			}
		}
	}
	if revision == "" {
		return unstamped
	}
	return "devel-" + revision[:min(12, len(revision))] + dirty
}

// ClusterFlags are the flags by which commands find a cluster of the user's, each after a space.
func ClusterFlags(kubeconfig, context string) (words string) {
	for _, flag := range [][2]string{{"--kubeconfig", kubeconfig}, {"--context", context}} {
		if flag[1] != "" {
			words += " " + flag[0] + " " + shell.Quote(flag[1])
		}
	}
	return words
}
