package components

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// istioRelease is an Istio release by its tag, and by the digests of its images,
// pilot and proxyv2, if the user gave them: a registry may let a tag move.
type istioRelease struct{ tag, pilot, proxy string }

var reDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// parseRelease reads TAG or TAG@PILOT,PROXYV2, where the two are digests of
// images; "" is the release nearest to the pinned module.
func parseRelease(text string) (istioRelease, error) {
	tag, pins, pinned := strings.Cut(text, "@")
	r := istioRelease{tag: cmp.Or(tag, istioOfficial)}
	if !pinned {
		return r, nil
	}
	pilot, proxy, both := strings.Cut(pins, ",")
	if r.pilot, r.proxy = pilot, proxy; tag == "" || !both || !reDigest.MatchString(pilot) || !reDigest.MatchString(proxy) {
		return istioRelease{}, errs.WithHint(errs.Usage("tag %q: want TAG@sha256:PILOT,sha256:PROXYV2", text),
			"`crane digest %s/pilot:%s` prints a digest, as does the registry's page; both images need theirs", IstioHub, r.tag)
	}
	return r, nil
}

// refs names the images: pilot, then proxyv2.
func (r istioRelease) refs(hub string) []string {
	hub = cmp.Or(strings.TrimSuffix(hub, "/"), IstioHub)
	return []string{hub + "/pilot:" + r.tag, hub + "/proxyv2:" + r.tag}
}

// ambientRefs names the images of an ambient mesh beside those: the node agent, then
// ztunnel.
func (r istioRelease) ambientRefs(hub string) []string {
	hub = cmp.Or(strings.TrimSuffix(hub, "/"), IstioHub)
	return []string{hub + "/install-cni:" + r.tag, hub + "/ztunnel:" + r.tag}
}

// pins are the digests by the names of the images; nil if there are none.
func (r istioRelease) pins(hub string) map[string]string {
	if r.pilot == "" {
		return nil
	}
	refs := r.refs(hub)
	return map[string]string{refs[0]: r.pilot, refs[1]: r.proxy}
}

// settings name the images in Istio's charts, with their digests if a cluster
// is to pull them; a local lab has them by their tags, pulled by digest.
func (r istioRelease) settings(hub string, byReference bool) []string {
	out := []string{"hub=" + cmp.Or(strings.TrimSuffix(hub, "/"), IstioHub), "tag=" + r.tag}
	if r.pilot == "" || !byReference {
		return out
	}
	// The charts check what a tag may be; an image with a slash they take as it is.
	refs := r.refs(hub)
	pilot, proxy := refs[0]+"@"+r.pilot, refs[1]+"@"+r.proxy
	return append(out, "values.pilot.image="+pilot, "values.global.proxy.image="+proxy, "values.global.proxy_init.image="+proxy)
}

// CheckTag says what is wrong with a tag of Istio's images.
func CheckTag(text string) error {
	_, err := parseRelease(text)
	return err
}
