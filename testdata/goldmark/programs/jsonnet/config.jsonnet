local port(i) = 8000 + i;
local container(name, i) = {
  name: name,
  image: 'registry/%s:%d' % [name, i],
  ports: [{ containerPort: port(i + p) } for p in std.range(0, 2)],
  env: [{ name: std.asciiUpper(k), value: self.name + '-' + k } for k in ['mode', 'zone', 'shard']],
};
local service(name, i) = {
  kind: 'Service',
  metadata: { name: name, labels: { app: name, tier: if i % 2 == 0 then 'front' else 'back' } },
  spec: { replicas: 1 + i % 5, containers: [container(name, i), container(name + '-side', i)] },
};
local names = ['svc%d' % i for i in std.range(0, 11)];
{
  services: { [names[i]]: service(names[i], i) for i in std.range(0, std.length(names) - 1) },
  fronts: std.filter(function(s) s.metadata.labels.tier == 'front', std.objectValues(self.services)),
  replicas: std.foldl(function(sum, s) sum + s.spec.replicas, std.objectValues(self.services), 0),
}
