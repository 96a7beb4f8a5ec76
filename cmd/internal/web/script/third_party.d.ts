// What libraries without types of their own are, as far as it is used.
declare module "d3-flame-graph";
declare module "d3-selection";
