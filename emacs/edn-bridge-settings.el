;;; edn-bridge-settings.el --- Settings of a project  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The provider, model, agent and permission mode of new sessions, which a
;; project's .dir-locals.el may set.  A command of an agent may have written
;; that file: Emacs takes these variables of it and no others, evaluates
;; nothing, and asks about values that loosen a permission.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-constants)

(defun edn-bridge-settings--name-p (value)
  "Return non-nil if VALUE is nil or the name of a provider or model."
  (or (null value)
      (and (stringp value)
           (string-match-p "\\`[^-[:cntrl:]][^[:cntrl:]]*\\'" value))))

(defun edn-bridge-settings--tight-mode-p (value)
  "Return non-nil if VALUE is nil or a mode that lets nothing change unasked."
  (member value '(nil "ask" "read-only")))

(defcustom edn-bridge-settings-provider nil
  "Provider of new sessions, or nil for that of the configuration."
  :type '(choice (const :tag "That of the configuration" nil) string)
  :safe #'edn-bridge-settings--name-p
  :group 'edn-bridge)

(defcustom edn-bridge-settings-model nil
  "Model of new sessions by its id, or nil for that of the configuration."
  :type '(choice (const :tag "That of the configuration" nil) string)
  :safe #'edn-bridge-settings--name-p
  :group 'edn-bridge)

;; An external agent has tools and permissions of its own.
(defcustom edn-bridge-settings-agent nil
  "External agent of new sessions by its name, or nil for none."
  :type '(choice (const :tag "None" nil) string)
  :safe #'null
  :group 'edn-bridge)

(defcustom edn-bridge-settings-mode nil
  "Permission mode of new sessions, or nil for that of the configuration.
Where a .dir-locals.el sets it to a mode that lets something change without
a question, Emacs asks."
  :type `(choice (const :tag "That of the configuration" nil)
                 ,@(mapcar (lambda (mode) (list 'const mode))
                           edn-bridge-constants-modes))
  :safe #'edn-bridge-settings--tight-mode-p
  :group 'edn-bridge)

(defconst edn-bridge-settings--arguments
  '((edn-bridge-settings-provider . "--provider")
    (edn-bridge-settings-model . "--model")
    (edn-bridge-settings-agent . "--agent")
    (edn-bridge-settings-mode . "--mode"))
  "The settings, each with the program's option for it.")

(defun edn-bridge-settings-arguments ()
  "Return the program's arguments for the settings of this buffer."
  (cl-loop for (variable . option) in edn-bridge-settings--arguments
           for value = (symbol-value variable)
           when (and (stringp value) (not (string-prefix-p "-" value)))
           append (list option value)))

(declare-function hack-local-variables-filter "files")

(defun edn-bridge-settings-read ()
  "Give this buffer the settings in the .dir-locals.el of its folder.
Emacs asks about those that are not safe; where it cannot ask, they do not
hold."
  (when-let ((variables (edn-bridge-settings--collect)))
    (let ((file-local-variables-alist nil))
      (condition-case nil
          (hack-local-variables-filter variables default-directory)
        ;; A chat may be opened by a timer.
        (error
         (setq file-local-variables-alist
               (seq-filter (pcase-lambda (`(,variable . ,value))
                             (safe-local-variable-p variable value))
                           variables))))
      (pcase-dolist (`(,variable . ,value) file-local-variables-alist)
        (when (assq variable edn-bridge-settings--arguments)
          (set (make-local-variable variable) value))))))

(defun edn-bridge-settings--collect ()
  "Return the settings in the .dir-locals.el of this buffer's folder."
  (when (and enable-local-variables
             enable-dir-local-variables
             (or enable-remote-dir-locals
                 (not (file-remote-p default-directory))))
    (let* ((found (dir-locals-find-file
                   (expand-file-name "x" default-directory)))
           (root (if (consp found) (car found) found))
           (class (cond ((stringp found) (dir-locals-read-from-dir found))
                        ((consp found) (nth 1 found)))))
      (when class
        (seq-filter
         (lambda (pair) (assq (car pair) edn-bridge-settings--arguments))
         (dir-locals-collect-variables (dir-locals-get-class-variables class)
                                       (if (stringp found)
                                           (file-name-directory
                                            (expand-file-name found))
                                         root)
                                       nil))))))

(provide 'edn-bridge-settings)

;;; edn-bridge-settings.el ends here
