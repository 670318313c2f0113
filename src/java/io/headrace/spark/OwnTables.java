package io.headrace.spark;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogWithListener;
import org.apache.spark.sql.catalyst.catalog.InMemoryCatalog;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Keeps the names that a pipeline registers in a session out of the metastore behind it: they are in memory, in front of
 * the metastore's, and end with the process.
 *
 * <p>What a thread creates or drops while it registers concerns the names in memory alone, and it sees no table of the
 * metastore. Otherwise a name in memory hides one in the metastore, and everything else goes to the metastore.
 */
public final class OwnTables implements InvocationHandler {
  private static final ThreadLocal<Boolean> REGISTERING = ThreadLocal.withInitial(() -> false);

  private final ExternalCatalog metastore;
  private final InMemoryCatalog own;
  // Of schemas in memory, which are created there.
  private final URI folder;

  private OwnTables(ExternalCatalog metastore, InMemoryCatalog own, URI folder) {
    this.metastore = metastore;
    this.own = own;
    this.folder = folder;
  }

  /** Put names in memory in front of a catalog, if they are not there yet. */
  public static void install(
      ExternalCatalogWithListener catalog, SparkConf conf, Configuration hadoop, String folder)
      throws ReflectiveOperationException {
    // The sessions of a process share this object, and keep it.
    Field field = ExternalCatalogWithListener.class.getDeclaredField("delegate");
    field.setAccessible(true);
    ExternalCatalog metastore = (ExternalCatalog) field.get(catalog);
    if (isInstalled(catalog)) {
      return;
    }
    OwnTables tables = new OwnTables(metastore, new InMemoryCatalog(conf, hadoop), URI.create(folder));
    Class<?>[] kind = {ExternalCatalog.class};
    field.set(catalog, Proxy.newProxyInstance(ExternalCatalog.class.getClassLoader(), kind, tables));
  }

  /** Whether names in memory are in front of a catalog. */
  public static boolean isInstalled(ExternalCatalogWithListener catalog) {
    ExternalCatalog inner = catalog.unwrapped();
    return Proxy.isProxyClass(inner.getClass()) && Proxy.getInvocationHandler(inner) instanceof OwnTables;
  }

  /** From now on, this thread registers names of the pipeline, or no longer does. */
  public static void setRegistering(boolean registering) {
    REGISTERING.set(registering);
  }

  /** Whether this thread registers names of the pipeline. */
  public static boolean isRegistering() {
    return REGISTERING.get();
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] given) throws Throwable {
    Object[] args = given == null ? new Object[0] : given;
    boolean registering = REGISTERING.get();
    switch (method.getName()) {
      case "createDatabase":
        if (registering) {
          createOwn((CatalogDatabase) args[0]);
          return null;
        }
        return call(metastore, method, args);
      case "databaseExists":
        return own.databaseExists((String) args[0]) || metastore.databaseExists((String) args[0]);
      case "getDatabase":
      case "setCurrentDatabase":
        return call(metastore.databaseExists((String) args[0]) ? metastore : own, method, args);
      case "listDatabases":
        return both(method, args);
      case "createTable":
        if (registering) {
          createOwn(databaseOf((CatalogTable) args[0]));
          return call(own, method, args);
        }
        return call(metastore, method, args);
      case "listTables":
        return own.databaseExists((String) args[0]) ? listTables(method, args) : call(metastore, method, args);
      case "getTablesByName":
        return tablesByName((String) args[0], (Seq<?>) args[1], method);
      case "tableExists":
        return has(args) || (!registering && metastore.tableExists((String) args[0], (String) args[1]));
      default:
        return call(isAboutTable(method) && (registering || has(args)) ? own : metastore, method, args);
    }
  }

  /** Whether a table in memory has the name with which the arguments begin. */
  private boolean has(Object[] args) {
    if (args.length > 0 && args[0] instanceof CatalogTable table) {
      return has(databaseOf(table), table.identifier().table());
    }
    return args.length > 1 && args[0] instanceof String db && args[1] instanceof String table && has(db, table);
  }

  private boolean has(String database, String table) {
    return own.databaseExists(database) && own.tableExists(database, table);
  }

  private static boolean isAboutTable(Method method) {
    String name = method.getName();
    return name.contains("Table") || name.contains("artition");
  }

  private static String databaseOf(CatalogTable table) {
    return table.identifier().database().isDefined() ? table.identifier().database().get() : "default";
  }

  private void createOwn(String name) {
    createOwn(new CatalogDatabase(name, "", folder, scala.collection.immutable.Map$.MODULE$.empty()));
  }

  private void createOwn(CatalogDatabase database) {
    if (!own.databaseExists(database.name())) {
      own.createDatabase(
          new CatalogDatabase(database.name(), database.description(), folder, database.properties()), true);
    }
  }

  private Object listTables(Method method, Object[] args) throws Throwable {
    return metastore.databaseExists((String) args[0]) ? both(method, args) : call(own, method, args);
  }

  private Object both(Method method, Object[] args) throws Throwable {
    TreeSet<Object> names = new TreeSet<>();
    for (ExternalCatalog catalog : List.of(own, metastore)) {
      names.addAll(CollectionConverters.asJava((Seq<?>) call(catalog, method, args)));
    }
    return seq(new ArrayList<>(names));
  }

  private Object tablesByName(String database, Seq<?> asked, Method method) throws Throwable {
    List<Object> inMemory = new ArrayList<>();
    List<Object> others = new ArrayList<>();
    for (Object name : CollectionConverters.asJava(asked)) {
      (has(database, (String) name) ? inMemory : others).add(name);
    }
    List<Object> found = new ArrayList<>();
    if (!inMemory.isEmpty()) {
      found.addAll(CollectionConverters.asJava((Seq<?>) call(own, method, new Object[] {database, seq(inMemory)})));
    }
    if (!others.isEmpty()) {
      found.addAll(CollectionConverters.asJava((Seq<?>) call(metastore, method, new Object[] {database, seq(others)})));
    }
    return seq(found);
  }

  private static Seq<Object> seq(List<Object> values) {
    return CollectionConverters.asScala(values).toSeq();
  }

  private static Object call(ExternalCatalog catalog, Method method, Object[] args) throws Throwable {
    try {
      return method.invoke(catalog, args);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
  }
}
