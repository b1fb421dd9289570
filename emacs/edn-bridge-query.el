;;; edn-bridge-query.el --- Ask a session in EQL  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A scratch buffer for queries in EQL.  C-c C-c sends the form at point
;; and shows the result as EDN.  Attributes are completed from the graph,
;; which describes itself.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-view)

(defcustom edn-bridge-query-initial-text
  ";; C-c C-c sends the form at point, TAB completes attributes.\n\n[:psi.agent-session/session-id\n :psi.agent-session/model-id\n :psi.agent-session/message-count]\n"
  "Text that a new query buffer starts with."
  :type 'string
  :group 'edn-bridge)

(defvar-local edn-bridge-query--chat nil
  "The chat buffer whose session is asked.")

(defvar-local edn-bridge-query--text nil
  "The query whose result this buffer shows.")

(defvar-local edn-bridge-query--attributes nil
  "Attributes of the graph: an alist of names and what they are, or nil.")

;;;; Modes

(defvar edn-bridge-query-syntax-table
  (let ((table (make-syntax-table)))
    (dolist (char '(?: ?. ?/ ?- ?_ ?* ?! ?? ?< ?> ?= ?+ ?& ?% ?$))
      (modify-syntax-entry char "_" table))
    (modify-syntax-entry ?\{ "(}" table)
    (modify-syntax-entry ?\} "){" table)
    (modify-syntax-entry ?\[ "(]" table)
    (modify-syntax-entry ?\] ")[" table)
    (modify-syntax-entry ?\; "<" table)
    (modify-syntax-entry ?\n ">" table)
    (modify-syntax-entry ?\" "\"" table)
    (modify-syntax-entry ?\\ "\\" table)
    (modify-syntax-entry ?, " " table)
    (modify-syntax-entry ?# "'" table)
    table)
  "Syntax table of EDN.")

(defvar edn-bridge-query-font-lock-keywords
  '(("\\_<:[^][ \t\n(){}\",;]+" . font-lock-constant-face)
    ("\\_<\\(?:nil\\|true\\|false\\)\\_>" . font-lock-keyword-face))
  "What is highlighted in EDN.")

(defvar edn-bridge-query-mode-map
  (let ((map (make-sparse-keymap)))
    (define-key map (kbd "C-c C-c") #'edn-bridge-query-send)
    map)
  "Keymap of `edn-bridge-query-mode'.")

(define-derived-mode edn-bridge-query-mode prog-mode "EQL"
  "Major mode for queries in EQL to a session.

\\{edn-bridge-query-mode-map}"
  :group 'edn-bridge
  :syntax-table edn-bridge-query-syntax-table
  (setq-local comment-start ";; "
              comment-start-skip ";+ *"
              font-lock-defaults '(edn-bridge-query-font-lock-keywords)
              indent-line-function #'edn-bridge-query-indent-line
              tab-always-indent 'complete)
  (add-hook 'completion-at-point-functions
            #'edn-bridge-query-complete-at-point nil t)
  (add-hook 'eldoc-documentation-functions #'edn-bridge-query-eldoc nil t))

(edn-bridge-define-view-mode edn-bridge-query-result-mode special-mode "EDN"
  "Major mode of the result of a query."
  :syntax-table edn-bridge-query-syntax-table
  (setq-local font-lock-defaults '(edn-bridge-query-font-lock-keywords)
              revert-buffer-function #'edn-bridge-query--revert))

(defun edn-bridge-query-indent-line ()
  "Indent the line to the inside of the bracket that it is in."
  (let ((column (save-excursion
                  (beginning-of-line)
                  (let ((open (nth 1 (syntax-ppss))))
                    (if open
                        (progn (goto-char open) (1+ (current-column)))
                      0)))))
    (if (<= (current-column) (current-indentation))
        (indent-line-to column)
      (save-excursion (indent-line-to column)))))

;;;; Commands

;;;###autoload
(defun edn-bridge-query ()
  "Go to a buffer for queries to the session of the most recent chat."
  (interactive)
  (let ((chat (if (edn-bridge-chat-buffer-p (current-buffer))
                  (current-buffer)
                (or (car (edn-bridge-chat-buffers))
                    (user-error "There is no chat; open one by M-x edn-bridge")))))
    (pop-to-buffer (edn-bridge-query--buffer chat))))

(defun edn-bridge-query--buffer (chat)
  "Return the query buffer of CHAT, a chat buffer."
  (let ((buffer (get-buffer-create
                 (format "*%s EQL*" (with-current-buffer chat
                                      (edn-bridge-chat-name))))))
    (with-current-buffer buffer
      (unless (derived-mode-p 'edn-bridge-query-mode)
        (edn-bridge-query-mode)
        (insert edn-bridge-query-initial-text)
        (goto-char (point-min))
        (forward-line 2))
      (setq edn-bridge-query--chat chat
            default-directory (buffer-local-value 'default-directory chat))
      (edn-bridge-query--fetch-attributes))
    buffer))

(defun edn-bridge-query--conn ()
  "Return the connection of this query buffer's chat, which must be open."
  (unless (buffer-live-p edn-bridge-query--chat)
    (user-error "The chat of this buffer is gone"))
  (with-current-buffer edn-bridge-query--chat
    (edn-bridge-chat-current)))

(defun edn-bridge-query-send (start end)
  "Send the query between START and END and show its result.
Interactively, that is the region, or else the outermost form at point."
  (interactive
   (if (use-region-p)
       (list (region-beginning) (region-end))
     (edn-bridge-query--form))
   edn-bridge-query-mode)
  (let ((source (current-buffer))
        (text (buffer-substring-no-properties start end))
        (buffer (get-buffer-create "*edn-bridge result*")))
    (edn-bridge-query--conn)
    (with-current-buffer buffer
      (edn-bridge-query-result-mode)
      (setq edn-bridge-query--chat
            (buffer-local-value 'edn-bridge-query--chat source)
            edn-bridge-query--text text)
      (edn-bridge-query--revert))
    (display-buffer buffer)))

(defun edn-bridge-query--revert (&rest _)
  "Send the query of this buffer again and show its result."
  (let ((buffer (current-buffer)))
    (edn-bridge-rpc-request
     (edn-bridge-query--conn) "query_eql" (list :query edn-bridge-query--text)
     :on-success
     (lambda (data)
       (edn-bridge-query--show
        buffer
        (lambda ()
          (edn-bridge-edn-pretty-print (plist-get data :result))
          (insert "\n")
          (edn-bridge-query--show-more "missing" (plist-get data :missing))
          (edn-bridge-query--show-more "errors" (plist-get data :errors)))))
     :on-error
     (lambda (frame)
       (edn-bridge-query--show
        buffer
        (lambda ()
          (insert ";; " (plist-get frame :error-code) "\n"
                  ";; " (plist-get frame :error-message) "\n")
          (when (plist-get frame :data)
            (edn-bridge-edn-pretty-print (plist-get frame :data))
            (insert "\n"))))))))

(defun edn-bridge-query--show (buffer function)
  "Have FUNCTION insert a result in BUFFER, which is emptied."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (let ((inhibit-read-only t))
        (erase-buffer)
        (funcall function)
        (goto-char (point-min))))))

(defun edn-bridge-query--show-more (title value)
  "Insert VALUE under TITLE unless there is none."
  (unless (or (null value) (equal value []))
    (insert "\n;; " title "\n")
    (edn-bridge-edn-pretty-print value)
    (insert "\n")))

(defun edn-bridge-query--form ()
  "Return start and end of the outermost form around or before point."
  (save-excursion
    (let ((open (car (nth 9 (syntax-ppss)))))
      (cond (open (goto-char open))
            ((looking-at-p "[ \t]*[[({]")
             (skip-chars-forward " \t"))
            (t (condition-case nil
                   (backward-sexp)
                 (scan-error (user-error "There is no form here")))))
      (let ((start (point)))
        (condition-case nil
            (forward-sexp)
          (scan-error (user-error "The form has no end")))
        (when (= start (point))
          (user-error "There is no form here"))
        (list start (point))))))

;;;; Attributes

(defconst edn-bridge-query--ask-attributes
  (concat "[:psi.graph/root-queryable-attrs"
          " {:psi.graph/attributes [:psi.attribute/name :psi.attribute/doc]}]")
  "Asks the graph for its attributes and what they are.")

(defun edn-bridge-query--fetch-attributes ()
  "Ask the graph for its attributes, to complete and explain them here."
  (let ((buffer (current-buffer)))
    (when (edn-bridge-rpc-live-p
           (buffer-local-value 'edn-bridge-chat--conn edn-bridge-query--chat))
      (edn-bridge-rpc-request
       (edn-bridge-query--conn) "query_eql"
       (list :query edn-bridge-query--ask-attributes)
       :on-success
       (lambda (data)
         (when (buffer-live-p buffer)
           (with-current-buffer buffer
             (setq edn-bridge-query--attributes
                   (edn-bridge-query--described (plist-get data :result))))))
       :on-error #'ignore))))

(defun edn-bridge-query--described (result)
  "Return the attributes in RESULT as an alist of names and what they are.
Those that it does not describe have nil."
  (let ((described (make-hash-table :test #'equal)))
    (seq-do (lambda (name) (puthash (symbol-name name) nil described))
            (plist-get result :psi.graph/root-queryable-attrs))
    (seq-do (lambda (attribute)
              (puthash (symbol-name
                        (plist-get attribute :psi.attribute/name))
                       (plist-get attribute :psi.attribute/doc)
                       described))
            (plist-get result :psi.graph/attributes))
    (sort (cl-loop for name being the hash-keys of described
                   using (hash-values doc)
                   collect (cons name doc))
          (lambda (a b) (string-lessp (car a) (car b))))))

(defun edn-bridge-query--doc (name)
  "Return what the attribute NAME is, or nil."
  (cdr (assoc name edn-bridge-query--attributes)))

(defun edn-bridge-query--attribute-at-point ()
  "Return the bounds of the attribute at point, or nil."
  (let ((bounds (bounds-of-thing-at-point 'symbol)))
    (and bounds
         (eq (char-after (car bounds)) ?:)
         bounds)))

(defun edn-bridge-query-complete-at-point ()
  "Complete the attribute at point."
  (when-let ((bounds (edn-bridge-query--attribute-at-point)))
    (list (car bounds) (cdr bounds) edn-bridge-query--attributes
          :annotation-function #'edn-bridge-query--annotate
          :exclusive 'no)))

(defun edn-bridge-query--annotate (name)
  "Return the annotation of the attribute NAME."
  (let ((doc (edn-bridge-query--doc name)))
    (if doc
        (concat "  " (propertize doc 'face 'completions-annotations))
      "")))

(defun edn-bridge-query-eldoc (callback &rest _)
  "Tell CALLBACK what the attribute at point is."
  (when-let* ((bounds (edn-bridge-query--attribute-at-point))
              (name (buffer-substring-no-properties (car bounds) (cdr bounds)))
              (doc (edn-bridge-query--doc name)))
    (funcall callback doc
             :thing name
             :face 'edn-bridge-title)))

(define-key edn-bridge-chat-mode-map (kbd "C-c C-e") #'edn-bridge-query)

(provide 'edn-bridge-query)

;;; edn-bridge-query.el ends here
