// Empty on a host of its own.
export default { basePath: process.env.BASE_PATH || "" };
