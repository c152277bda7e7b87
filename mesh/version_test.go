package mesh

import "testing"

func TestVersion(t *testing.T) {
	for image, want := range map[string]string{
		"docker.io/istio/pilot:1.31.0":              "1.31.0",
		"registry:5000/istio/pilot":                 "latest",
		"registry:5000/istio/pilot:1.2-distroless":  "1.2-distroless",
		"istio/pilot@sha256:abc":                    "sha256:abc",
		"registry:5000/istio/pilot:1.2@sha256:0123": "sha256:0123",
		"pilot": "latest",
	} {
		if got := Version(image); got != want {
			t.Errorf("version of %s is %s, want %s", image, got, want)
		}
	}
}
