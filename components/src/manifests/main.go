package main
import (
	_ "istio.io/istio/operator/pkg/render"
	_ "istio.io/istio/manifests"
)
func main(){}
