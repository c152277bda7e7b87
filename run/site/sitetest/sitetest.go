// Package sitetest provides images and adapters for trial tests without a
// cluster.
package sitetest

import (
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	corev1 "k8s.io/api/core/v1"
)

// Images are the images of a lab with two versions of Envoy.
var Images = lab.Images{Meshtrial: "hub/meshtrial:1", PullPolicy: corev1.PullIfNotPresent,
	Meshes: map[string]map[string]string{"istio": {"proxy": "hub/proxyv2:1", "proxy@1.39.0": "hub/proxyv2:1-envoy1.39.0"}}}

// Istio returns the Istio adapter with these images.
func Istio() mesh.Mesh { return istio.New(Images) }
