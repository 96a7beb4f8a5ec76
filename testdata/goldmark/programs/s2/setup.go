package main

import (
	"math"

	"github.com/golang/geo/s1"
	"github.com/golang/geo/s2"
)

// setup makes places on the sphere. The work is to cover circles by cells, to index polygons and to ask what lies where.
// It takes nothing of its input.
func setup([]byte) func() int {
	var places []s2.LatLng
	for i := range 400 {
		places = append(places, s2.LatLngFromDegrees(60*math.Sin(float64(i)), 170*math.Cos(1.7*float64(i))))
	}
	return func() int {
		made := 0
		index := s2.NewShapeIndex()
		for i, ll := range places[:60] {
			center := s2.PointFromLatLng(ll)
			loop := s2.RegularLoop(center, s1.Angle(0.05+0.001*float64(i)), 12+i%20)
			index.Add(s2.PolygonFromLoops([]*s2.Loop{loop}))
			coverer := &s2.RegionCoverer{MaxLevel: 20, MaxCells: 12}
			union := coverer.Covering(s2.CapFromCenterAngle(center, 0.02))
			union.Normalize()
			made += len(union)
			for _, other := range places {
				if union.ContainsCellID(s2.CellIDFromLatLng(other)) {
					made++
				}
			}
		}
		index.Build()
		query := s2.NewContainsPointQuery(index, s2.VertexModelSemiOpen)
		edges := s2.NewClosestEdgeQuery(index, s2.NewClosestEdgeQueryOptions().MaxResults(3))
		for _, ll := range places {
			p := s2.PointFromLatLng(ll)
			if query.Contains(p) {
				made++
			}
			made += len(edges.FindEdges(s2.NewMinDistanceToPointTarget(p)))
		}
		return made
	}
}
