// Package sitetest has what tests of trials deploy with, without a cluster.
package sitetest

import (
	"github.com/meshtrial/meshtrial/lab"
	"github.com/meshtrial/meshtrial/mesh"
	"github.com/meshtrial/meshtrial/mesh/istio"
	corev1 "k8s.io/api/core/v1"
)

// Images are those of a lab that has two versions of Envoy.
var Images = lab.Images{Meshtrial: "hub/meshtrial:1", Proxy: "hub/proxyv2:1", Proxies: map[string]string{"1.39.0": "hub/proxyv2:1-envoy1.39.0"}, PullPolicy: corev1.PullIfNotPresent}

// Istio is its adapter, with those images.
func Istio() mesh.Mesh { return &istio.Mesh{ProxyImage: Images.ProxyFor} }
