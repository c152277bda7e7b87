// Package components builds and downloads the programs of a local lab, and assembles the
// images of its pods.
//
// [Table] lists everything that is pinned and where it comes from: programs built from the
// Go module in src, which the program embeds (src.txtar), Envoy from a PyPI wheel, and
// Debian packages. Data passes through the package like this:
//
//	Table -> Builder.Ensure   -> cache -> Set     programs and folders
//	Plan  -> Builder.Assemble -> cache -> []Image archives containerd imports
//	Pull  -> Builder.Pull     -> cache -> []Image likewise, from a registry
//
// A mesh's adapter (package mesh) defines the mesh's images and how its charts are rendered.
// It keeps what it makes in the same cache, through Builder.Make.
//
// The cache is content-addressed: an entry's name contains a hash of all its inputs. An
// entry appears by one rename when it is complete, and never changes. Builders in several
// processes may race: a lock ensures that each entry is made once.
package components

import (
	"time"
)

// References of the images that [Builder.Images] assembles. The local lab always has them,
// so pods use pull policy IfNotPresent.
const (
	PauseRef   = "docker.io/meshtrial/pause:1"
	CoreDNSRef = "docker.io/meshtrial/coredns:" + coreDNSVersion
	RolesRef   = "docker.io/meshtrial/meshtrial:lab" // worker, load, observe, xds
)

// Options configures a [Builder]. Users get the zero value.
type Options struct {
	// CacheDir holds everything that is made. Default: $MESHTRIAL_CACHE, otherwise meshtrial
	// in the user's cache folder. $MESHTRIAL_BASE_CACHE is a second, read-only cache.
	CacheDir string
	// Recorded trusts the cache's own records instead of reading its files, for callers that
	// run none of them.
	Recorded bool
	// Arch is the processor that components are for, as Go calls it. Default: this machine's.
	Arch string
	// Progress receives events, from one goroutine at a time. May be nil.
	Progress func(Event)
}

// Event is a step of progress.
type Event struct {
	Component string // title of components, or an image
	Phase     Phase
	Detail    string        // a package being compiled, a size, a note
	Elapsed   time.Duration // since the call began
	Left      time.Duration // estimate for the whole call; 0 if unknown or done
}

// Phase of an [Event].
type Phase string

// Phases, in the order a component passes through them.
const (
	PhaseWait     Phase = "wait" // another builder is making it
	PhaseDownload Phase = "download"
	PhaseBuild    Phase = "build"
	PhaseAssemble Phase = "assemble"
	PhaseReady    Phase = "ready" // just made; cached components have no event
	PhaseNote     Phase = "note"  // for the user
)

// Program is a file to execute.
type Program struct {
	Path   string
	Digest string `json:"-"` // sha256:...
	// Env holds the variables that the program needs in addition to its caller's
	// environment, as KEY=VALUE. It is often empty.
	Env []string
}

// Set locates components. It is read-only.
type Set struct {
	programs map[string]Program
	dirs     map[string]string
	versions []Version
}

// Program finds a program of the set by its name: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubelet, kube-proxy, kubectl,
// pilot-discovery, pilot-agent, istioctl, install-cni, istio-cni, kwok, coredns, envoy
// (or envoy@VERSION), containerd, containerd-shim-runc-v2, ctr, runc, nft.
func (s *Set) Program(name string) (Program, bool) {
	p, ok := s.programs[name]
	return p, ok
}

// Dir returns the folder of a component, or "" if the set does not have it; "cni" holds the
// CNI plugins.
func (s *Set) Dir(name string) string { return s.dirs[name] }

// Versions lists what the set was made from: each component and Debian package.
func (s *Set) Versions() []Version { return s.versions }

// Version identifies a component exactly.
type Version struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Source  string `json:"source"`           // its module, wheel or package
	Digest  string `json:"digest"`           // h1:... for modules, sha256:... otherwise
	Binary  string `json:"binary,omitempty"` // sha256:... of the program, if it is a program
	// Compiler is the Go version that built it here: another compiler makes a different
	// program from the same sources and flags.
	Compiler string `json:"compiler,omitempty"`
	Lacks    string `json:"lacks,omitempty"` // what the official build has in addition
}

// Image is an image in the cache.
type Image struct {
	Ref    string `json:"ref"`            // docker.io/...
	Path   string `json:"path,omitempty"` // archive for `ctr images import`
	Digest string `json:"digest"`         // sha256:... of the manifest
	Size   int64  `json:"size_bytes"`     // of the archive
}
