package assess

import (
	"cmp"
	"strconv"
	"strings"
)

// version is a release of Istio, from the tag of an image. A patch of -1 is unknown.
type version struct{ major, minor, patch int }

// versionOf reads a tag such as 1.30.2-distroless.
func versionOf(tag string) (v version, known bool) {
	release, suffix, _ := strings.Cut(strings.TrimPrefix(tag, "v"), "-")
	parts := strings.Split(release, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return v, false
	}
	var numbers [3]int
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return v, false
		}
		numbers[i] = n
	}
	v = version{numbers[0], numbers[1], numbers[2]}
	before := strings.HasPrefix(suffix, "alpha") || strings.HasPrefix(suffix, "beta") || strings.HasPrefix(suffix, "rc")
	if len(parts) == 2 || before { // a build of a branch, or before a release: nobody can say what it has
		v.patch = -1
	}
	return v, true
}

func (v version) compare(o version) int {
	return cmp.Or(cmp.Compare(v.major, o.major), cmp.Compare(v.minor, o.minor), cmp.Compare(v.patch, o.patch))
}

// sameMinor reports whether two releases are of one branch.
func (v version) sameMinor(o version) bool { return v.major == o.major && v.minor == o.minor }

// SameVersion reports whether two tags may name the same version of Istio. A build of a branch
// (1.31-eed52ebb66ad) may be any release of that branch.
func SameVersion(a, b string) bool {
	v, known := versionOf(a)
	o, other := versionOf(b)
	if !known || !other {
		return a == b
	}
	return v.sameMinor(o) && (v.patch == o.patch || v.patch < 0 || o.patch < 0)
}
